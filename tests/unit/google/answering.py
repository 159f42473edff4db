"""A server that says whatever a test wants, over real HTTP; and credentials that count their refreshes."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.auth.credentials import Credentials


class Token(Credentials):
    """Credentials that count their refreshes; without a token the first call makes one."""

    def __init__(self, token=None):
        super().__init__()
        self.token = token
        self.refreshes = 0

    def refresh(self, _request):
        self.refreshes += 1
        self.token = f"token-{self.refreshes}"


class Server:
    """Answers each request as ``answer`` says, and remembers the tokens it was shown.

    ``answer`` takes the request and returns status, body and headers; a body that is no bytes is written
    piece by piece, as it comes.
    """

    def __init__(self, answer):
        tokens = self.tokens = []
        requests = self.requests = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body would wait 40 ms for what acknowledges its head

            def answer(self):
                tokens.append(self.headers.get("Authorization"))
                requests.append(self.path)
                length = int(self.headers.get("Content-Length", 0))
                self.body = self.rfile.read(length)
                status, body, headers = answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if isinstance(body, bytes):
                    self.send_header("Content-Length", str(len(body)))
                    body = [body]
                self.end_headers()
                try:
                    for piece in body:
                        self.wfile.write(piece)
                        self.wfile.flush()
                except OSError:  # the client went away
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815  # http.server's names

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def well(_request):
    return 200, b"{}", {}
