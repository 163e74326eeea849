"""An HTTP server with OpenAI's interface around a model; needs the extra ``serve``."""

from snell.llm.server.app import application
from snell.llm.server.listening import Listener
from snell.llm.server.service import Service
from snell.llm.server.settings import Settings

__all__ = ["Listener", "Service", "Settings", "application"]
