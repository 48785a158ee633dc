// Fuzzes the bytes of an HTTP connection. They must give equal requests whether they arrive in one read, byte by byte,
// or in two reads.
#include <algorithm>
#include <vector>

#include "infer/server/request_reader.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

namespace server = infer::server;

constexpr server::RequestLimits kLimits{.max_header = 1024, .max_body = 2048};

struct Read {
  std::vector<std::string> requests{};  ///< fields and body of each complete request (see shown())
  int status = 0;                       ///< HTTP status of the error that ended reading; 0: no error
  bool operator==(const Read&) const = default;
};

// Returns all fields of a request and its body as one string, for comparing requests.
std::string shown(server::RequestReader& reader) {
  const server::RequestHead& h = reader.head();
  check(!h.method.empty(), "a request has a method");
  check(h.path.find_first_of(" \r\n") == std::string::npos, "a path has no spaces");
  check(h.version == 10 || h.version == 11, "the version is 1.0 or 1.1");
  for (const std::string* value : {&h.host, &h.origin, &h.content_type, &h.authorization}) {
    check(value->find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos, "a value is one line");
    check(server::trimmed(*value) == *value, "a value is trimmed");
  }
  check(h.chunked || reader.body().size() == h.content_length, "a body is as long as its length");
  return fmt::format("{} {} {} {} {}|{}|{}|{}|{}|{}", h.method, h.path, h.version, h.keep_alive, h.expects_continue,
                     h.host, h.origin, h.content_type, h.authorization, reader.body());
}

// Reads the requests of a connection whose bytes arrive in pieces: `first` bytes, then `size` bytes at a time. Skips
// bodies if `skips` is true.
Read read(std::string_view bytes, size_t first, size_t size, bool skips = false) {
  Read all;
  server::RequestReader reader(kLimits);
  try {
    for (size_t n = first; !bytes.empty(); n = size) {
      std::string piece(bytes.substr(0, n));  // copied, so that sanitizers detect a read past the end
      bytes.remove_prefix(piece.size());
      while (!piece.empty()) {
        const size_t used = reader.read(piece);
        check(used > 0 && used <= piece.size(), "bytes are consumed");
        check(used == piece.size() || reader.has_head(), "remaining bytes belong to a body or the next request");
        check(reader.body().capacity() <= std::max<size_t>(kLimits.max_body, 64), "a body is within bounds");
        piece.erase(0, used);
        if (skips && reader.has_head()) reader.skip_body();
        if (!reader.is_complete()) continue;
        if (!skips) all.requests.push_back(shown(reader));
        reader = server::RequestReader(kLimits);
      }
    }
  } catch (const server::RequestError& error) {
    all.status = error.status();
    check(all.status == 400 || all.status == 413 || all.status == 417 || all.status == 431,
          "the status is one of a client's error");
    const std::string what = error.what();
    check(what.size() <= 512 && core::printable(what, 512) == what, "an error is one printable line");
  }
  return all;
}

}  // namespace

bool take(std::string_view input) {
  const Read whole = read(input, input.size(), 1);
  check(read(input, 1, 1) == whole, "bytes that arrive one by one give the same requests");
  for (size_t at = 1; at < input.size(); at += 1 + input.size() / 16) {
    check(read(input, at, input.size()) == whole, "requests don't depend on where bytes are split");
  }
  check(read(input, input.size(), 1, true).status == whole.status, "a body that is skipped is checked, too");
  return whole.status == 0 && !whole.requests.empty();
}

}  // namespace folio::fuzz
