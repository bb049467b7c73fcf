"""An operator throws for one row, the program catches it, and the ranks exchange nothing afterwards: python caught.py WHICH END [WHICH END]..."""
import sys

import torch

torch.manual_seed(2)
model = torch.nn.Linear(4, 3)
rows = torch.randn(24, 4)
model(rows).sum().backward()


@torch.no_grad()
def evaluate(bad_row):
    places = (model(rows).abs().sum(1) * 0).long()
    if bad_row is not None:
        places = places + (torch.arange(24) == bad_row) * 7
    try:
        torch.arange(3.0).index_select(0, places)
    except (IndexError, RuntimeError):
        return "bad"
    return "good"


def states_of(which):
    bad_rows = {"none": [None, None], "last": [None, 23], "one_each": [1, 23]}
    if which in bad_rows:
        return [evaluate(bad_row) for bad_row in bad_rows[which]]
    states = []
    for _ in range(2):  # "all": no shape fits
        try:
            model(rows) @ model(rows)
        except RuntimeError:
            states.append("bad")
    return states


for which, end in zip(sys.argv[1::2], sys.argv[2::2]):
    states = states_of(which)
    if end == "file":
        with open("states.txt", "w", encoding="ascii") as file:
            file.write(str(states))
    elif end == "save":
        torch.save(states, "states.pt")
    print(states)
