"""Run studies over a corpus: shards, one forward pass a batch, states that merge, results on disk."""
