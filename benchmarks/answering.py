"""How a peer answers in its own environment, where only the standard library is sure to be: JSON lines in and out."""

import json
import os
import sys


def answer_requests(peer):
    """Call the method that each line of the input names under `do`, until the input ends; an error is an answer too.

    What anybody else prints goes to stderr.
    """
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(peer, request["do"])(request)
        except Exception as error:  # the error travels to the caller
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
