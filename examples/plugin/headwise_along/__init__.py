"""A package that extends headwise; its modules are found through the entry points in pyproject.toml."""
