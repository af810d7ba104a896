"""Settings of the judge: a language model that is asked where rules find no reason. Off without an address."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from gpulake.core.addresses import check_scheme, check_url, is_loopback
from gpulake.core.errors import require

KEY_VARIABLE = "GPULAKE_JUDGE_API_KEY"  # secrets come only from the environment


@dataclass(frozen=True)
class Judge:
    """An endpoint with OpenAI's chat protocol: `[judge]` in gpulake.toml."""

    base_url: str = ""  # such as http://127.0.0.1:8080/v1; empty: no model is asked
    model: str = ""  # as the endpoint names it
    timeout_seconds: float = 60.0  # for a question with all its retries; each vote is a question
    retries: int = 1  # of a question that failed
    temperature: float = 0.0  # 0: the same answer each time
    votes: int = 1  # answers that are asked for, one after the other; a reason counts if more than half give it
    most_lines: int = 200  # of the log, in the question
    most_characters: int = 24_000  # of the log, in the question
    most_answer_tokens: int = 1_200  # of the model
    allow_plain_http: bool = False  # to other hosts, over a trusted network

    def __post_init__(self) -> None:
        self._check("timeout_seconds", 0 < self.timeout_seconds <= 3600, "use up to 3600 seconds")
        self._check("retries", 0 <= self.retries <= 5, "use 0 to 5")
        self._check("temperature", 0 <= self.temperature <= 2, "use 0 to 2; 0 answers alike each time")
        self._check("votes", 1 <= self.votes <= 15, "use 1 to 15")
        require(
            self.votes == 1 or self.temperature > 0, "judge.votes asks again at temperature 0", "set it to 0.7, say"
        )
        for name in ("most_lines", "most_characters", "most_answer_tokens"):
            self._check(name, getattr(self, name) >= 1, "use a number above 0")
        if self.base_url:
            hint = f"give the path alone, and the key in {KEY_VARIABLE}"
            check_url("judge.base_url", self.base_url, "http://127.0.0.1:8080/v1", hint)
            check_scheme(f"judge.base_url {self.base_url}", self.base_url, "logs", self.allow_plain_http)
            require(bool(self.model), "judge.model is not set", "name the model as the endpoint does")

    def _check(self, name: str, is_right: bool, hint: str) -> None:
        require(is_right, f"judge.{name} is {getattr(self, name)}", hint)

    @property
    def is_on(self) -> bool:
        return bool(self.base_url)

    @property
    def is_local(self) -> bool:
        """The endpoint is on this machine: no log leaves it."""
        return is_loopback(urlsplit(self.base_url).hostname or "")
