"""Clients that hold connections to a server without causing work: they send nothing, send slowly, or don't read."""
import asyncio
import contextlib
import socket

SLOW_TEXT = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"a" * 600  # a request that never ends
GREEDY_TEXT = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50


@contextlib.contextmanager
def unread_port():
    """Provides a listening port on which no connection is accepted. Data sent to it only fills the kernel's buffers."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(4096)
        yield s.getsockname()[1]


class SlowClients:
    """Keeps n slow clients connected during `async with SlowClients(port, n)`. A client that the server disconnects
    reconnects after a second."""

    def __init__(self, port, n):
        self.port, self.n = port, n
        self.cut_off = 0
        self.open = set()
        self.ready = asyncio.Semaphore(0)

    async def __aenter__(self):
        behaviours = [self.idle, self.a_byte_a_second, self.does_not_read]
        self.tasks = [asyncio.create_task(self.always(behaviours[i % 3], i)) for i in range(self.n)]
        for _ in self.tasks:
            await asyncio.wait_for(self.ready.acquire(), 60)
        await asyncio.sleep(3)  # by then, clients that don't read have filled all buffers
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def always(self, behaviour, i):
        first = True
        while True:
            with socket.socket() as s:
                s.setblocking(False)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                try:
                    await asyncio.get_running_loop().sock_connect(s, ("127.0.0.1", self.port))
                    self.open.add(i)
                    if first:
                        self.ready.release()
                        first = False
                    await behaviour(s)
                except OSError:
                    pass  # disconnected by the server
                finally:
                    self.open.discard(i)
            self.cut_off += 1
            await asyncio.sleep(1)

    async def idle(self, s):
        await asyncio.get_running_loop().sock_recv(s, 1)

    async def a_byte_a_second(self, s):
        for byte in SLOW_TEXT:
            await asyncio.get_running_loop().sock_sendall(s, bytes([byte]))
            await asyncio.sleep(1)

    async def does_not_read(self, s):
        while True:
            await asyncio.get_running_loop().sock_sendall(s, GREEDY_TEXT)
