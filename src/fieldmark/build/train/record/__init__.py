"""What a training run writes down.

checkpoint.py  the state of a run, to go on from
log.py         a row per step, and the page that draws them (page.html)
scores.py      evaluations of exported models, and which one did best
"""
