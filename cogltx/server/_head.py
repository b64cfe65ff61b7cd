"""Middleware that answers HEAD as GET, without the body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """Answers HEAD wherever GET is answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        is_sent = False

        async def sent(message: Message) -> None:
            nonlocal is_sent
            if message["type"] != "http.response.body":
                await send(message)
            elif not is_sent:
                is_sent = True
                await send({"type": "http.response.body"})

        as_get = {**scope, "method": "GET"}
        await self.app(as_get, receive, sent)
        scope["route"] = as_get.get("route")
