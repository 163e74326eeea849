"""Sentence embeddings: which of a few sentences says the same as the first?

Run with `python examples/embed.py`; MiniLM (91 MB) is installed on the first use.
"""

import sys

import snell as sn

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A cheetah is running behind its prey.",
]


def main() -> None:
    """Write the cosine of each sentence with the first one."""
    model = sn.llm.load("minilm")
    vectors = model.embed(SENTENCES)  # f32 (4, 384), each of length 1
    for sentence, cosine in zip(SENTENCES, vectors @ vectors[0], strict=True):
        sys.stdout.write(f"{cosine:6.3f}  {sentence}\n")


if __name__ == "__main__":
    main()
