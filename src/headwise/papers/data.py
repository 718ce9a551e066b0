"""The corpora of the papers' items, or the open ones that stand in for them, and where to get them."""

from __future__ import annotations

from headwise.papers.claim import Job

WIKITEXT = "wikitext2/wiki.test.raw"
WIKITEXT_GET = "the raw test file of WikiText-2 (Hugging Face datasets: wikitext, wikitext-2-raw-v1)"
MRPC, MRPC_GET = "mrpc/dev.tsv", "MRPC dev as GLUE's tsv (Hugging Face datasets: glue, mrpc)"
COLA, COLA_GET = "cola/in_domain_dev.tsv", "CoLA in-domain dev tsv (Hugging Face datasets: glue, cola)"
MNLI, MNLI_GET = "mnli/dev_matched.tsv", "MNLI dev matched as GLUE's tsv (Hugging Face datasets: glue, mnli)"
EWT, EWT_GET = "ud-ewt/en_ewt-ud-test.conllu", "UD English EWT (Universal Dependencies release)"
EWT_TRAIN = "en_ewt-ud-train.conllu"  # beside it
GUM, GUM_GET = "ontogum", "OntoGUM: folders conll/ and conllu/ (GitHub: amir-zeldes/gum)"
ALIGN, ALIGN_FILES = "align-de-en", ("de", "en", "alignmentDeEn.talp")
ALIGN_GET = "the RWTH German–English gold alignments (RWTH i6 gold alignment page)"
CHUNKS = "conll2000"
CHUNKS_GET = 'CoNLL-2000 chunking, train.txt and test.txt (nltk.download("conll2000"))'


def wikipedia(study: str, **settings: object) -> Job:
    """Clark et al. and Kobayashi et al.: pairs of paragraphs of up to 128 tokens."""
    return Job(study, WIKITEXT, WIKITEXT_GET, settings, corpus={"segments": 128})


def paraphrases(study: str, **settings: object) -> Job:
    """Brunner et al. 2019 and 2020: sentence pairs of MRPC dev."""
    return Job(study, MRPC, MRPC_GET, settings)


def translations(study: str, *, head: bool = False, **settings: object) -> Job:
    """Kobayashi et al., section 5: German–English pairs with gold links."""
    kind = "a German–English translation model"
    return Job(study, ALIGN, ALIGN_GET, settings, head=head, model=kind, files=ALIGN_FILES)
