"""What the numbers of a head are called where heads are compared: on charts, on the page and in the shell."""

TITLES = {
    "to_first": "to the first token", "to_separator": "to separators", "to_punctuation": "to periods and commas",
    "to_other": "to other tokens", "previous": "to the previous token", "current": "to itself",
    "next": "to the next token", "entropy": "entropy (nats)", "null_share": "share that changes nothing",
    "unique_rows": "rows that no others replace", "loose": "room to move", "carried": "follows the weights",
    "parked": "parked on no word", "sent": "sent from where it is parked",
    "neighbour": "to one neighbour",
}  # fmt: skip
