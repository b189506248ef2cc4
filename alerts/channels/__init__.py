"""Where messages go: one file a kind, one line each in `KINDS`, by the name it has in the configuration."""

from __future__ import annotations

from alerts.channels import slack
from alerts.channels.contract import ChannelKind

KINDS: dict[str, ChannelKind] = {
    "slack": slack,
}
