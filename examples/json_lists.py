"""One JSON object of lists by id, `{"4": [1, 2]}`, to JSON lines, `{"id": 4, "NAME": [1, 2]}`, which ingest reads."""

import argparse
import csv
import json
from pathlib import Path


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("name", help="what the lists are called in the lines")
    parser.add_argument("target", type=Path)
    parser.add_argument("--csv", type=Path, help="a file whose columns are added, the first being the same integer ids")
    options = parser.parse_args()

    rows = {int(key): {options.name: values} for key, values in json.loads(options.source.read_text()).items()}
    if options.csv is not None:
        with open(options.csv, newline="", encoding="utf-8") as text:
            header, *lines = csv.reader(text)
        for line in lines:
            # No list is an empty one; cells stay as they are written.
            rows.setdefault(int(line[0]), {options.name: []}).update(zip(header[1:], map(json.loads, line[1:])))
    with open(options.target, "w", encoding="utf-8") as target:
        for key, row in rows.items():
            target.write(json.dumps({"id": key, **row}) + "\n")


if __name__ == "__main__":
    main()
