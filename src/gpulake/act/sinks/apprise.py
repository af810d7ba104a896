"""Mail, chat and pagers, through Apprise: one address, which holds its secrets and comes only from the environment."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpulake.act.alerts.alert import Alert
from gpulake.act.sinks import SINKS, Setup

if TYPE_CHECKING:
    from apprise import NotifyType

LOGGERS = ("apprise", "urllib3")
# Mentions that notify everybody in a chat, and brackets in which chats write commands.
_MENTIONS = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)", re.IGNORECASE)
_BRACKETS = str.maketrans({"<": "‹", ">": "›"})


@SINKS.register("apprise")
class Apprise:
    deduplicates = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def send(self, alert: Alert) -> None:
        service = self._service()
        with _CapturedLog() as log:
            is_sent = service.notify(
                title=defused(alert.title), body=defused(alert.body), notify_type=_type(alert), body_format="text"
            )
        if not is_sent:
            reason = "; ".join(log.lines) or "the service did not take it"
            raise self._setup.failure(reason)

    def _service(self) -> Any:
        setup = self._setup
        if not setup.settings.url_variable:
            raise setup.failure("it has no address", hint=f"set url_variable in [alerts.sinks.{setup.name}]")
        url = addressed(setup.secret(setup.settings.url_variable), setup.recipient)
        try:
            import apprise
        except ImportError:
            raise setup.failure("Apprise is not installed", hint="pip install 'gpulake[alerts]'") from None
        asset = apprise.AppriseAsset(
            app_id="gpulake", secure_logging=True, interpret_escapes=False, async_mode=False, http_redirects=False
        )
        service = apprise.Apprise(asset=asset)
        with _CapturedLog():
            is_known = service.add(url)
        if not is_known or len(service) != 1:
            hint = "write one address in the form of https://github.com/caronc/apprise/wiki"
            raise setup.failure(f"{setup.settings.url_variable} holds no address that Apprise knows", hint=hint)
        for plug in service:
            plug.socket_connect_timeout = plug.socket_read_timeout = setup.settings.timeout_seconds
        return service


def addressed(url: str, recipient: str) -> str:
    """The address of a mail server, with the person whom the mail is for."""
    return f"{url}{'&' if '?' in url else '?'}to={quote(recipient)}" if recipient else url


def defused(text: str) -> str:
    """Text of a log mentions nobody and is no command of a chat."""
    return _MENTIONS.sub("@\N{ZERO WIDTH SPACE}", text.translate(_BRACKETS))


def _type(alert: Alert) -> NotifyType:
    from apprise import NotifyType

    if alert.event == "resolved":
        return NotifyType.SUCCESS
    words = {"critical": NotifyType.FAILURE, "warning": NotifyType.WARNING}
    return words.get(alert.severity, NotifyType.INFO)


class _CapturedLog(logging.Handler):
    """Apprise gives its reasons only in its log. It is captured, as is that of urllib3: both may name the address."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(LOGGERS[0]):
            self.lines.append(" ".join(record.getMessage().split()))

    def __enter__(self) -> _CapturedLog:
        self._before = []
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._before.append((logger, logger.propagate, logger.level, logger.handlers[:]))
            logger.propagate, logger.handlers[:] = False, [self]
            logger.setLevel(logging.WARNING)
        self._disabled = logging.root.manager.disable
        logging.disable(max(self._disabled, logging.INFO))
        return self

    def __exit__(self, *_: object) -> None:
        logging.disable(self._disabled)
        for logger, propagate, level, handlers in self._before:
            logger.propagate, logger.handlers[:] = propagate, handlers
            logger.setLevel(level)
