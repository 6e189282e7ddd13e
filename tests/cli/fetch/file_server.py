# SPDX-License-Identifier: Apache-2.0
"""An HTTP server of a folder's files, with ranges of bytes, and the faults of real servers."""
import http.server
import os
import threading


class FileServer:
    """Serves `folder` on a free port of 127.0.0.1 until close(). The fields can be changed."""

    def __init__(self, folder):
        self.folder = folder
        self.ranges = True        # False: answers every request with the whole file
        self.wrong = {}           # file name -> position of a byte that is sent wrong
        self.cut = {}             # file name -> answers that end after half of their bytes
        self.lock = threading.Condition()
        self.budget = None        # bytes that may still be sent; None: no limit
        self.sent = 0
        self.idle = False         # the budget is used up, and a request waits
        self.closed = False
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):   # pylint: disable=invalid-name
                owner.answer(self)

            def log_message(self, *args):   # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        with self.lock:
            self.closed = True
            self.lock.notify_all()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def allow(self, budget):
        with self.lock:
            self.budget, self.idle = budget, False
            self.lock.notify_all()

    def wait_idle(self, process):
        """Wait until the budget is used up. Returns False if the process has ended before."""
        with self.lock:
            while not self.idle and process.poll() is None:
                self.lock.wait(0.05)
            return self.idle

    def take(self, size):
        """Return how many of `size` bytes may be sent now; waits for the first."""
        with self.lock:
            while self.budget == 0 and not self.closed:
                self.idle = True
                self.lock.notify_all()
                self.lock.wait(1)
            if self.closed:
                return 0
            size = size if self.budget is None else min(size, self.budget)
            self.sent += size
            if self.budget is not None:
                self.budget -= size
            return size

    def answer(self, request):
        path = os.path.join(self.folder, request.path.split("?")[0].lstrip("/"))
        name = os.path.basename(path)
        if not os.path.isfile(path):
            request.send_error(404)
            return
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if name in self.wrong:
            data[self.wrong[name]] ^= 1
        begin, end = 0, len(data)
        if self.ranges and "Range" in request.headers:
            first, last = request.headers["Range"][len("bytes="):].split("-")
            begin, end = int(first), min(int(last) + 1, len(data))
            request.send_response(206)
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(end - begin))
        request.end_headers()
        if self.cut.get(name, 0) > 0:
            self.cut[name] -= 1
            end = (begin + end) // 2
        try:
            while begin < end:
                size = self.take(min(65536, end - begin))
                if size == 0:
                    break
                request.wfile.write(data[begin:begin + size])
                begin += size
        except OSError:
            pass   # the client was killed
        request.close_connection = True
