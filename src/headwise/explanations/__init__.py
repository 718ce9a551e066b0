"""What an answer of a model rests on, and whether to believe it: targets, exact paths, tests on the same text, a page.

`targets.py` says what is explained, `asking.py` builds it from a text, `question.py` asks the model, `frozen.py` and
`paths.py` split the number exactly, `methods.py` holds the other methods, `trial.py` tests an explanation on its text,
`verdict.py` is the one rule that puts the tests in words, `explain.py` is what users call.
"""
