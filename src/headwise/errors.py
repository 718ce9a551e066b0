"""The exceptions a user can meet. Each message says what must hold, what was got, and what to do next."""


class HeadwiseError(Exception):
    """Base of every error that is the user's to solve: the command line prints it in one line and exits with 2."""


class InputError(HeadwiseError):
    """A text, corpus, argument or file that cannot be used as given."""


class TooLongError(InputError):
    """A text with more tokens than the model reads."""


class WholeMapsError(InputError, AttributeError):
    """A long text was asked for what needs whole maps; an AttributeError, so that `hasattr` says no."""


class ModelError(HeadwiseError):
    """A model that cannot be found, loaded, or analysed."""


class ProofError(ModelError):
    """The captured numbers do not reproduce the model's own output, so none of them may be shown."""


class UnknownNameError(InputError):
    """A name that no registry holds; the message lists the nearest ones."""


class PluginError(HeadwiseError):
    """An installed package says that it extends headwise, but cannot be imported."""
