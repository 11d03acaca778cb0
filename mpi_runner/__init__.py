"""Training across ranks and the `gossamer` command; imports nothing, so that a rank can first set its threads."""
