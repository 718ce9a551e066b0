"""Two models, or two corpora, or two results, head by head.

formulas.py   differences with intervals, which head is which: pure functions of arrays
distances.py  how far each head of one model is from each of another, on the same tokens
run.py        from two names to a stored result
page.py       figures, and one page that needs no network
"""
