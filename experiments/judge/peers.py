"""The judge's models and texts before other packages' methods: captum, shap, inseq and context-cite, where installed.

    pip install captum shap inseq context-cite     # none of them is a dependency of headwise
    python experiments/judge/peers.py out/judge out/judge/peers.csv --tasks copy shortcut count negation lookup

Each package is used through its own interface on the same weights, the texts of seed 78 and the same number (the
log-odds of the answer against all other words; inseq offers the logit). What a package removes it replaces by [MASK],
which the models have seen in training. One row a task and method; goes on where it stopped. A package that is not
there, or fails, is said and left out.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judge import IDS, auroc, interval, precision
from tasks import TASKS

import headwise as hw

MASK, SEED = IDS["[MASK]"], 78
Scores = Callable[[Any, torch.Tensor, int], list[float]]  # model, ids [1 token], answer → a score a token


def log_odds(model: Any, answer: int, **inputs: Any) -> torch.Tensor:
    """[batch]: log p / (1 − p) of the answer after the last token."""
    logits = model(**inputs).logits[:, -1].double()
    others = logits.clone()
    others[:, answer] = -torch.inf
    return logits[:, answer] - others.logsumexp(-1)


def captum_methods() -> dict[str, Scores]:
    from captum.attr import (
        FeatureAblation,
        InputXGradient,
        KernelShap,
        LayerIntegratedGradients,
        ShapleyValueSampling,
    )

    def of_ids(method: type, **options: Any) -> Scores:
        def scores(model: Any, ids: torch.Tensor, answer: int) -> list[float]:
            found = method(lambda x: log_odds(model, answer, input_ids=x))
            return found.attribute(ids, baselines=torch.full_like(ids, MASK), **options)[0].tolist()

        return scores

    def integrated(model: Any, ids: torch.Tensor, answer: int) -> list[float]:
        method = LayerIntegratedGradients(lambda x: log_odds(model, answer, input_ids=x), model.get_input_embeddings())
        made = method.attribute(ids, baselines=torch.full_like(ids, MASK), n_steps=32)
        return made[0].sum(-1).tolist()

    def gradient(model: Any, ids: torch.Tensor, answer: int) -> list[float]:
        x = model.get_input_embeddings()(ids).detach().requires_grad_()
        return InputXGradient(lambda e: log_odds(model, answer, inputs_embeds=e)).attribute(x)[0].sum(-1).tolist()

    return {
        "captum IntegratedGradients": integrated,
        "captum InputXGradient": gradient,
        "captum FeatureAblation": of_ids(FeatureAblation, perturbations_per_eval=16),
        "captum ShapleyValueSampling": of_ids(ShapleyValueSampling, n_samples=8, perturbations_per_eval=16),
        "captum KernelShap": of_ids(KernelShap, n_samples=128, perturbations_per_eval=32),
    }


def shap_methods() -> dict[str, Scores]:
    import shap

    def permutation(model: Any, ids: torch.Tensor, answer: int) -> list[float]:
        def number(there: np.ndarray) -> np.ndarray:
            x = torch.where(torch.tensor(there > 0.5), ids, MASK)
            return log_odds(model, answer, input_ids=x).numpy()

        with torch.no_grad():
            made = shap.explainers.Permutation(number, np.zeros((1, ids.shape[1])), seed=0)
            return made(np.ones((1, ids.shape[1])), max_evals=8 * ids.shape[1] + 1, silent=True).values[0].tolist()

    return {"shap Permutation": permutation}


def inseq_methods(folder: Path) -> dict[str, Scores]:
    import inseq

    def of(name: str) -> Scores:
        held = inseq.load_model(str(folder), name)

        def scores(model: Any, ids: torch.Tensor, answer: int) -> list[float]:  # noqa: ARG001 - inseq holds its own
            words = held.tokenizer.convert_ids_to_tokens(ids[0, 1:].tolist())
            text, word = " ".join(words), held.tokenizer.convert_ids_to_tokens([answer])[0]
            out = held.attribute(text, f"{text} {word}", attributed_fn="logit", show_progress=False)
            made = out.sequence_attributions[0].target_attributions
            column = made.reshape(made.shape[0], made.shape[1], -1).sum(-1)[:, -1]
            return column[: ids.shape[1]].nan_to_num(0.0).tolist()

        return scores

    return {f"inseq {name}": of(name) for name in ("integrated_gradients", "saliency", "value_zeroing")}


def cite_methods() -> dict[str, Scores]:
    from context_cite.solver import LassoRegression

    def cite(model: Any, ids: torch.Tensor, answer: int) -> list[float]:
        """Its regression on its kind of ablations: every word a source, half of them gone, 64 times."""
        there = torch.rand(64, ids.shape[1], generator=torch.Generator().manual_seed(0)) < 0.5
        there[:, 0] = there[:, -1] = True
        with torch.no_grad():
            y = log_odds(model, answer, input_ids=torch.where(there, ids, MASK)).numpy()
        return LassoRegression().fit(there.numpy(), y, 1)[0].tolist()

    return {"context-cite 64 ablations": cite}


def methods(folder: Path) -> dict[str, Scores]:
    found: dict[str, Scores] = {}
    offers = {"captum": captum_methods, "shap": shap_methods, "inseq": lambda: inseq_methods(folder),
              "context-cite": cite_methods}  # fmt: skip
    for package, made in offers.items():
        try:
            found |= made()
        except Exception as error:
            print(f"{package} is left out: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return found


def judged(folder: Path, task: str, texts: int, done: set[tuple[str, str]]) -> list[dict[str, Any]]:
    model = hw.load(str(folder), task="causal-lm").hf
    rows = []
    for name, scores in methods(folder).items():
        if (task, name) in done:
            continue
        rng, found = random.Random(SEED), []
        try:
            for _ in range(texts):
                text = TASKS[task](rng)
                ids, answer = torch.tensor([[IDS["[BOS]"], *(IDS[word] for word in text.words)]]), IDS[text.answer]
                if int(model(input_ids=ids).logits[0, -1].argmax()) != answer:
                    continue
                evidence = [at in text.evidence for at in range(len(text.words))]
                own = scores(model, ids, answer)[1:]
                found.append((auroc(own, evidence), precision(own, evidence)))
        except Exception as error:
            print(f"{name} on {task}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        (a, a_half), (p, p_half) = (interval([pair[at] for pair in found]) for at in (0, 1))
        measured = {"auroc": a, "auroc_half": a_half, "precision": p, "precision_half": p_half}
        rows.append({"task": task, "method": name, "texts": len(found), **{k: f"{x:.4f}" for k, x in measured.items()}})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--texts", type=int, default=50)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    done = (
        {(row["task"], row["method"]) for row in csv.DictReader(chosen.out.open())} if chosen.out.is_file() else set()
    )
    for task in chosen.tasks:
        rows = judged(chosen.models / f"llama-{task}", task, chosen.texts, done)
        new = not chosen.out.is_file()
        with chosen.out.open("a", newline="") as file:
            if rows:
                writer = csv.DictWriter(file, list(rows[0]))
                if new:
                    writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
