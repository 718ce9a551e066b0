"""The local web application: texts through the models that were named at the start, and stored results.

jobs.py     a queue with one worker: progress, cancel, limits
answer.py   what a visitor asks, as the viewer's page
stored.py   results and reports of one folder, and nothing outside it
guard.py    who may ask (Host, Origin), how much, and what every answer's headers say
app.py      the addresses
run.py      the socket on 127.0.0.1, the signals
"""
