"""A server that says whatever a test wants, over real HTTP; and credentials that count their refreshes."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Token:
    """google.auth credentials that expire at once and count their refreshes."""

    universe_domain = "googleapis.com"

    def __init__(self, token=None):
        self.refreshes = 0
        self.token = token
        self.expired = False

    @property
    def valid(self):
        return self.token is not None

    def refresh(self, _request):
        time.sleep(0.02)  # a refresh takes time: the window in which others find the token still expired
        self.refreshes += 1
        self.token = f"token-{self.refreshes}"

    def apply(self, headers, token=None):
        headers["authorization"] = f"Bearer {token or self.token}"


class Server:
    """Answers each request as ``answer`` says, and remembers the tokens it was shown.

    ``answer`` takes the request and returns status, body and headers; a body that is no bytes is written
    piece by piece, as it comes.
    """

    def __init__(self, answer):
        tokens = self.tokens = []
        requests = self.requests = []
        connections = self.connections = set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body would wait 40 ms for what acknowledges its head

            def answer(self):
                tokens.append(self.headers.get("Authorization"))
                requests.append(self.path)
                connections.add(self.client_address)
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

            do_GET = do_POST = do_DELETE = answer  # noqa: N815  # http.server's names

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
