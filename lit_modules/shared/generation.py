"""Generates text with a language model over characters."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from layers.decoder import Memory, NextToken
from text import CharacterTokenizer, check_range, hashed


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The settings of generated texts.

    Attributes:
        prompt: beginning of each text.
        number: number of texts.
        length: largest number of characters after the prompt.
        temperature: divides the logits; 0 takes the most probable character.
        seed: of the random numbers; text i of a seed does not depend on the number of texts.
    """

    prompt: str = ""
    number: int = 1
    length: int = 200
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
        names = ("number", "length")
        check_range({f"generation.{name}": getattr(self, name) for name in names}, least=1)
        check_range({"generation.temperature": self.temperature}, least=0)
        check_range({"generation.seed": self.seed}, least=0)


class GeneratedText(NamedTuple):
    """A prompt with its continuation, which has `ended`, or is cut at its largest length."""

    text: str
    ended: bool


@torch.no_grad()
def write(
    network: NextToken,
    tokenizer: CharacterTokenizer,
    numbers: list[int],
    settings: Generation,
    *,
    cache: bool = True,
) -> list[GeneratedText]:
    """Continue the prompt, once for each of the numbers: at least one of the texts 0, 1, ...

    The network is in evaluation mode. Without `cache`, each character reads all previous ones
    again, whose keys and values are not stored. The texts are the same.

    Raises:
        ValueError: a prompt of unknown characters, or too long a text.
    """
    prompt = [tokenizer.end_id, *tokenizer.find_ids(settings.prompt)]
    if len(prompt) + settings.length > tokenizer.max_length - 1:
        msg = (
            f"got a prompt of {len(prompt) - 1} characters and generation.length="
            f"{settings.length}, expected at most {tokenizer.max_length - 2} together, the longest "
            "text of the model"
        )
        raise ValueError(msg)
    device = next(network.parameters()).device
    ids = torch.tensor([prompt] * len(numbers), device=device)
    barred = torch.tensor([tokenizer.pad_id, tokenizer.unk_id], device=device)
    ended = torch.zeros(len(numbers), dtype=torch.bool, device=device)
    memory: Memory | None = None
    for position in range(settings.length):
        logits, memory = network.extend(ids if memory is None else ids[:, -1:], memory)
        # A finished text repeats its end; `decode` leaves it out.
        memory = memory if cache else None
        drawn = _draw(logits[:, -1].index_fill(1, barred, -torch.inf), numbers, position, settings)
        ids = torch.cat([ids, torch.where(ended, tokenizer.end_id, drawn).unsqueeze(1)], dim=1)
        ended |= drawn == tokenizer.end_id
        if bool(ended.all()):
            break
    return [
        GeneratedText(tokenizer.decode(row), bool(end))
        for row, end in zip(ids.tolist(), ended.tolist(), strict=True)
    ]


def _draw(logits: Tensor, numbers: list[int], position: int, settings: Generation) -> Tensor:
    """`[B]`: the next id of each text."""
    if settings.temperature == 0:
        return logits.argmax(dim=1)
    # Inverts the distribution function at a number that depends only on seed, text and position.
    odds = torch.softmax(logits.double() / settings.temperature, dim=1).cumsum(dim=1)
    hashes = hashed(np.array(numbers, dtype=np.uint64), settings.seed, position)
    shares = torch.from_numpy((hashes >> np.uint64(11)).astype(np.float64) / 2**53).to(odds)
    # The first id whose cumulative probability is greater.
    return (odds <= shares.unsqueeze(1) * odds[:, -1:]).sum(dim=1)
