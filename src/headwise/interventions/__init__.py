"""Does it matter? What a model does, and how that changes when heads, edges or blocks are taken away."""
