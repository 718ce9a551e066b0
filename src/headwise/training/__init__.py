"""What heads do while a model learns: numbers every so many steps, on the same few texts."""
