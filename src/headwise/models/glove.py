"""GloVe word vectors (Pennington et al. 2014, https://nlp.stanford.edu/projects/glove/): words without their context.

A packaged resource: fetched once, then memory-mapped from the cache. Words are lower-cased, most frequent first.
"""

from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

from headwise.models.packaged import packaged_folder


def glove() -> tuple[tuple[str, ...], Float[Tensor, "word dimension"]]:
    """The 400,000 words, and their float32 vectors of 50 dimensions in the same order.

    >>> words, vectors = glove()
    >>> row = {word: number for number, word in enumerate(words)}
    >>> vectors[row["cat"]]
    """
    folder = packaged_folder("glove")
    # subtle: split at newlines only; some of GloVe's words are other characters that Python takes for line ends
    words = tuple((folder / "words.txt").read_bytes().decode().split("\n"))
    return words, load_file(folder / "vectors.safetensors")["vectors"]
