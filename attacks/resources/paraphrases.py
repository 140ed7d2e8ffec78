"""Writes texts otherwise, by a language model; each rewritten text is on disk before it is used.

Sources: Xu et al., "An LLM can Fool Itself: A Prompt-Based Adversarial Attack" (PromptAttack),
2024, section 3.2, whose three levels of instructions are those of `LEVELS`, in words of our own;
and Ribeiro et al., "Semantically Equivalent Adversarial Rules", 2018 (a model that paraphrases).
PromptAttack tells the model the class that its answer should be taken for. Here a text has the same
paraphrases whatever is attacked, so that models are compared on the same texts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import torch

from attacks.fingerprint import weights_digest
from attacks.json_lines import append, read_lines, resume_lines
from attacks.victims.answers_by_template import AnswerError, excerpt
from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_transport import Transport
from attacks.victims.kinds import VictimError
from layers.quiet_transformers import quiet
from text.bounded_files import DataError
from text.error_reasons import describe_error

LEVELS: Mapping[str, tuple[str, ...]] = {
    "characters": (
        "Misspell at most two words of the text, each by one letter.",
        "Repeat or leave out one letter in at most two words of the text.",
        "Add at most two meaningless characters to the end of the text.",
    ),
    "words": (
        "Replace at most two words of the text by words of the same meaning.",
        "Delete at most two words of the text that add nothing to its meaning.",
        "Add at most two words to the text that leave its meaning as it is.",
    ),
    "sentences": (
        "Write the text in other words, with the same meaning.",
        "Change the order of the parts of the sentences, with the same meaning.",
        "Write the text as a person would say it in a conversation, with the same meaning.",
    ),
}
"""Instructions to a chat model, three of each level."""
_FORM = "{instruction} Answer with the new text alone, without quotation marks.\n\nText: {text}"
_QUOTES = {'"': '"', "'": "'", "“": "”"}


class Paraphraser(Protocol):
    """Writes a text in several other ways."""

    def about(self) -> dict[str, Any]:
        """Return all that its answers depend on."""

    def write(self, text: str) -> list[str]:
        """Return the rewritten texts, without the text itself."""


class SequenceParaphraser:
    """A sequence-to-sequence model of `transformers`, by beam search: the same texts each time.

    Args:
        name_or_path: folder, or a model in the hub's local cache; nothing is downloaded.
        count: rewritten texts of a text.
        prefix: put before each text, as the model was trained with.
        device: of the model.

    Raises:
        FileNotFoundError: no such model.
    """

    def __init__(
        self, name_or_path: str, *, count: int, prefix: str = "", device: torch.device | str = "cpu"
    ) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        # Explicit `trust_remote_code`: with its default, transformers asks at the terminal.
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            with quiet():
                self._tokenizer = AutoTokenizer.from_pretrained(name_or_path, **local)
                model = AutoModelForSeq2SeqLM.from_pretrained(name_or_path, **local)
        # Foreign files lead the library to exceptions of any kind.
        except Exception as error:
            msg = (
                f"got {name_or_path!r}, from which no sequence-to-sequence model could be loaded "
                f"({describe_error(error):.200}), expected a folder with config.json, weights and "
                "tokenizer, or a model in the hub's local cache"
            )
            raise FileNotFoundError(msg) from error
        self._model = model.to(device).eval()
        self.name, self.count, self.prefix = name_or_path, count, prefix

    def about(self) -> dict[str, Any]:
        """See `Paraphraser`."""
        return {"weights": weights_digest(self._model), "count": self.count, "prefix": self.prefix}

    @torch.no_grad()
    def write(self, text: str) -> list[str]:
        """See `Paraphraser`."""
        encoded = self._tokenizer(self.prefix + text, return_tensors="pt", truncation=True)
        length = encoded["input_ids"].shape[1]
        ids = self._model.generate(
            **encoded.to(self._model.device),
            num_beams=self.count,
            num_return_sequences=self.count,
            do_sample=False,
            # A text of the same meaning has about the same length.
            max_new_tokens=2 * length + 8,
        )
        return self._tokenizer.batch_decode(ids, skip_special_tokens=True)


class ChatParaphraser:
    """An OpenAI-style chat endpoint, which is asked once for each instruction.

    Args:
        url: the address.
        settings: with `chat`, the name of the model.
        levels: some of `LEVELS`.

    Raises:
        ValueError: no model, or unknown levels.
    """

    def __init__(self, url: str, settings: HttpSettings, levels: Sequence[str]) -> None:
        if settings.chat is None:
            msg = f"got chat endpoint {url} without a model, expected its name: --http.chat NAME"
            raise ValueError(msg)
        if not levels or (strange := sorted({*levels} - {*LEVELS})):
            named = ", ".join(strange) if levels else "none"
            msg = f"got levels {named}, expected some of {', '.join(LEVELS)}"
            raise ValueError(msg)
        self.settings = settings
        self.instructions = [text for level in LEVELS if level in levels for text in LEVELS[level]]
        self._transport = Transport(url, settings)

    def about(self) -> dict[str, Any]:
        """See `Paraphraser`."""
        about = {"name": self._transport.name, "chat": self.settings.chat, "prompt": _FORM}
        return about | {"instructions": self.instructions}

    def write(self, text: str) -> list[str]:
        """See `Paraphraser`.

        Raises:
            VictimError: no usable answer.
        """
        if self.settings.parallel == 1:
            return [self._ask(text, instruction) for instruction in self.instructions]
        with ThreadPoolExecutor(self.settings.parallel) as pool:
            return list(pool.map(lambda order: self._ask(text, order), self.instructions))

    def _ask(self, text: str, instruction: str) -> str:
        # One pass: the text may hold braces.
        before, _, after = _FORM.replace("{instruction}", instruction).partition("{text}")
        request = {
            "model": self.settings.chat,
            "messages": [{"role": "user", "content": f"{before}{text}{after}"}],
            "temperature": 0,
        }
        return self._transport.post(request, _reply)


def _reply(answer: Any) -> str:
    try:
        reply = answer["choices"][0]["message"]["content"]
    except (IndexError, KeyError, TypeError) as error:
        msg = f"got {excerpt(answer)}, expected choices[0].message.content: is it a chat endpoint?"
        raise AnswerError(msg) from error
    if not isinstance(reply, str):
        msg = f"got {excerpt(answer)}, expected a text as choices[0].message.content"
        raise AnswerError(msg)
    reply = " ".join(reply.split())
    # Models quote texts in spite of the instruction.
    if len(reply) > 1 and _QUOTES.get(reply[0]) == reply[-1]:
        reply = reply[1:-1].strip()
    return reply


def write_paraphrases(
    path: Path,
    texts: Iterable[str],
    paraphraser: Paraphraser,
    *,
    budget: int | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> int:
    """Write the paraphrases of texts to a file, text by text; the same call resumes.

    Args:
        path: the file: a line about the paraphraser, then one for each text.
        texts: those that the file has already are left out.
        paraphraser: writes the texts.
        budget: texts that are rewritten in this file at most; None: all.
        progress: called with the number of texts after each one.

    Returns:
        The number of texts in the file.

    Raises:
        ValueError: the file is of another paraphraser, or another process writes it.
        VictimError: the model gives no usable answer, or the budget is used up.
    """
    about: dict[str, Any] = {"kind": "paraphrases", **paraphraser.about()}
    records, stream = resume_lines(path, about, _record, "with paraphrases of another model")
    known = {text for text, _ in records}
    try:
        for text in dict.fromkeys(text.strip() for text in texts):
            if text in known or not text:
                continue
            if budget is not None and len(known) >= budget:
                msg = (
                    f"got a budget of {budget:,} texts, which is used up; {path} keeps all that "
                    "were rewritten, expected a larger --http.budget to resume"
                )
                raise VictimError(msg)
            rewritten = dict.fromkeys(each.strip() for each in paraphraser.write(text))
            line = {"text": text, "paraphrases": [x for x in rewritten if x and x != text]}
            append(stream, [line])
            known.add(text)
            progress(len(known))
    finally:
        stream.close()
    return len(known)


def read_paraphrases(path: str | Path) -> dict[str, list[str]]:
    """Return the paraphrases of each text of a file.

    Raises:
        DataError: not a file of `write_paraphrases`, or an empty one.
    """
    description, records, _ = read_lines(path, _record)
    if not isinstance(description, dict) or description.get("kind") != "paraphrases" or not records:
        msg = (
            f"got {path} without paraphrases, expected a file that `steadfast resources "
            "paraphrases` has written"
        )
        raise DataError(msg)
    return dict(records)


def _record(line: Any) -> tuple[str, list[str]]:
    return str(line["text"]), [str(text) for text in line["paraphrases"]]
