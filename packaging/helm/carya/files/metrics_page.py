"""Passes the pages of a daemon or worker on, from the loopback of its pod to a port that Prometheus reaches: python3 metrics_page.py PORT FROM."""

import http.client
import http.server
import signal
import sys

PAGES = ("/metrics", "/healthz", "/readyz")
BYTES_MAX = 16 << 20


class Page(http.server.BaseHTTPRequestHandler):
    """GET of the three pages, and nothing else."""

    timeout = 10

    def do_GET(self) -> None:
        status, kind, body = 404, "text/plain", b"no such page\n"
        if self.path in PAGES:
            program = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=5)
            try:
                program.request("GET", self.path)
                answer = program.getresponse()
                status, kind, body = answer.status, answer.getheader("Content-Type", kind), answer.read(BYTES_MAX)
            except (OSError, http.client.HTTPException) as error:
                status, body = 503, f"it does not answer: {error}\n".encode()
            finally:
                program.close()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """One line per scrape would be nobody's reading."""


if __name__ == "__main__":
    # The first process of a container ignores what it does not handle, and would hold the pod up until it is killed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Page).serve_forever()
