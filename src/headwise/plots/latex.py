r"""A text as LaTeX that prints it, whatever is in it: a token is data, and nothing of it may become a command.

What means something to TeX comes out as the character that it is, common symbols as mathematics, so that pdflatex knows
them; other scripts stay as they are, and `strange` names them.

>>> escaped(r"50 % of {x_1} \input"), escaped("α × 2")
('50 \\% of \\{x\\_1\\} \\textbackslash{}input', '$\\alpha$ $\\times$ 2')
>>> strange("naïve Ġα"), strange("你 é")
([], ['你'])
"""

from __future__ import annotations

import re
import unicodedata

SPECIAL = {**{sign: f"\\{sign}" for sign in "#$%&_{}"}, "\\": r"\textbackslash{}", "^": r"\textasciicircum{}",
           "~": r"$\sim$", "<": "$<$", ">": "$>$", "|": "$|$", '"': r"{\char34}", "\xa0": "~",
           "▁": r"\rule[-.15em]{.5em}{.08em}", "–": r"\textendash{}", "—": r"\textemdash{}"}  # fmt: skip
MATH = {"−": "-", "×": r"\times", "±": r"\pm", "·": r"\cdot", "÷": r"\div", "‖": r"\|", "∂": r"\partial",
        "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "≈": r"\approx", "∈": r"\in", "√": r"\surd", "∑": r"\sum", "⊥": r"\perp",
        "←": r"\leftarrow", "→": r"\to", "↑": r"\uparrow", "↓": r"\downarrow", "↔": r"\leftrightarrow", "∞": r"\infty",
        "∇": r"\nabla", "∆": r"\Delta", "µ": r"\mu", "ℓ": r"\ell", "°": r"^\circ", "⟨": r"\langle", "⟩": r"\rangle",
        "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\epsilon", "ζ": r"\zeta", "η": r"\eta",
        "θ": r"\theta", "ι": r"\iota", "κ": r"\kappa", "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "ξ": r"\xi", "ο": "o",
        "π": r"\pi", "ρ": r"\rho", "ς": r"\varsigma", "σ": r"\sigma", "τ": r"\tau", "υ": r"\upsilon", "φ": r"\varphi",
        "χ": r"\chi", "ψ": r"\psi", "ω": r"\omega", "Γ": r"\Gamma", "Δ": r"\Delta", "Θ": r"\Theta", "Λ": r"\Lambda",
        "Ξ": r"\Xi", "Π": r"\Pi", "Σ": r"\Sigma", "Υ": r"\Upsilon", "Φ": r"\Phi", "Ψ": r"\Psi", "Ω": r"\Omega",
        **{sign: f"^{{{up}}}" for sign, up in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿᵀ", [*"0123456789-n", r"\top"], strict=True)},
        **{sign: f"_{{{down}}}" for sign, down in zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij", strict=True)}}  # fmt: skip
WRITTEN = {**SPECIAL, **{sign: f"${said}$" for sign, said in MATH.items()}}
# what pdflatex knows without a package (of Latin's letters, not those that its first encoding lacks)
LACKS = set("«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ")
KNOWN = {chr(at) for at in (*range(0x20, 0x7F), *range(0xA1, 0x180))} - LACKS | set("’‘“”…")
PAIR = re.compile(r"(?<=[-'`,?!])(?=[-'`,])")  # subtle: --, '' and ?` would be drawn as one other sign


def escaped(text: str) -> str:
    """The text in LaTeX; line ends and controls are spaces, what has no width is left out."""
    parts = PAIR.split("".join(_plain(c) for c in text))
    return r"\kern0pt{}".join("".join(WRITTEN.get(c, c) for c in part) for part in parts)


def strange(text: str) -> list[str]:
    """The characters that pdflatex may not know, once each, in order."""
    return sorted({c for c in map(_plain, text) if c} - KNOWN - set(WRITTEN))


def _plain(c: str) -> str:
    """subtle: TeX ends a line, and a paragraph, at what is a control."""
    kind = unicodedata.category(c)
    return c if c == "\xa0" else " " if kind in ("Cc", "Zs", "Zl", "Zp") else "" if kind == "Cf" else c
