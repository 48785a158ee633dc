#include "infer/server/request_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace folio::infer::server {
namespace {

constexpr size_t kMaxSizeDigits = 16;  // maximum hexadecimal digits of a chunk's size

[[noreturn]] void bad_request(const std::string& why) { throw RequestError(400, "not a valid HTTP request: " + why); }

// Returns true if `text` may be an HTTP method or a header's name.
bool is_token(std::string_view text) {
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
  return !text.empty() && text.find_first_not_of(kCharacters) == std::string_view::npos;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string named(std::string_view text) { return "\"" + core::printable(text) + "\""; }

// Returns true if a comma-separated list such as ",close,te" contains the element.
bool lists(std::string_view list, std::string_view element) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (trimmed(list.substr(0, comma)) == element) return true;
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return false;
}

// Returns the name and the value of a header line.
std::pair<std::string_view, std::string_view> field_of(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') bad_request("a header line must not be folded");
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !is_token(name)) {
    bad_request("a header line is not NAME: VALUE: " + named(line));
  }
  return {name, trimmed(line.substr(colon + 1))};
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

size_t RequestReader::read(std::string_view bytes) {
  size_t used = 0;
  has_begun_ = has_begun_ || !bytes.empty();
  while (used < bytes.size() && !is_complete()) {
    const bool had_head = has_head();
    used += state_ == State::Data ? read_data(bytes.substr(used)) : read_line(bytes.substr(used));
    if (has_head() && !had_head) break;
  }
  return used;
}

// Reads at most the rest of a line and returns the number of bytes read. Checks each byte immediately, since the rest
// may never arrive.
size_t RequestReader::read_line(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  const size_t n = newline == std::string_view::npos ? bytes.size() : newline + 1;
  for (const char c : bytes.substr(0, n)) {
    if (n_overhead_ + line_.size() >= limits_.max_header) {
      throw RequestError(
          431, fmt::format("the {} larger than {} bytes",
                           has_head() ? "chunk extensions and trailers are" : "header is", limits_.max_header));
    }
    const bool after_return = !line_.empty() && line_.back() == '\r';
    if (after_return != (c == '\n')) bad_request("a line must end with CR LF and have neither elsewhere");
    if (is_control(c) && c != '\r' && c != '\n' && c != '\t') bad_request("a control character in the header");
    if (state_ == State::ChunkEnd && c != '\r' && c != '\n') bad_request("a chunk is longer than its size");
    line_ += c;
  }
  if (newline != std::string_view::npos) {
    const std::string line = std::exchange(line_, {});
    take_line(std::string_view(line).substr(0, line.size() - 2));
  }
  return n;
}

void RequestReader::take_line(std::string_view line) {
  if (state_ != State::ChunkSize && state_ != State::ChunkEnd) n_overhead_ += line.size() + 2;
  switch (state_) {
    case State::RequestLine:
      if (!line.empty()) take_request_line(line);  // empty lines before a request are allowed
      break;
    case State::Header:
      line.empty() ? end_header() : take_field(line);
      break;
    case State::ChunkSize:
      take_chunk_size(line);
      break;
    case State::ChunkEnd:
      state_ = State::ChunkSize;
      break;
    case State::Trailer:
      if (line.empty()) {
        state_ = State::Complete;
      } else {
        static_cast<void>(field_of(line));
      }
      break;
    case State::Data:
    case State::Complete:
      break;
  }
}

void RequestReader::take_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) bad_request("the request line is not METHOD TARGET HTTP/1.1: " + named(line));
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!is_token(method)) bad_request("the method is " + named(method));
  const bool visible = std::ranges::all_of(target, [](char c) { return c > ' ' && c < 0x7f; });
  if (target.empty() || !visible) bad_request("the target is " + named(target));
  if (version != "HTTP/1.1" && version != "HTTP/1.0") bad_request("the version is " + named(version));
  head_.head_only = method == "HEAD";
  head_.method = head_.head_only ? "GET" : method;
  head_.path = target.substr(0, target.find('?'));
  head_.version = version == "HTTP/1.1" ? 11 : 10;
  state_ = State::Header;
}

// Stores a header field. Fields that the server uses, except Connection, may appear only once, since a proxy could use
// a different one of two duplicates than this server.
void RequestReader::take_field(std::string_view line) {
  const auto [name, value] = field_of(line);
  const std::string lower = lower_case(name);
  if (lower == "connection") {
    connection_ += "," + lower_case(value);
    return;
  }
  HttpRequest& r = head_;
  const std::array<std::pair<std::string_view, std::string*>, 7> once = {{{"host", &r.host},
                                                                          {"origin", &r.origin},
                                                                          {"content-type", &r.content_type},
                                                                          {"authorization", &r.authorization},
                                                                          {"content-length", &length_},
                                                                          {"transfer-encoding", &coding_},
                                                                          {"expect", &expectation_}}};
  for (size_t i = 0; i < once.size(); ++i) {
    if (lower != once[i].first) continue;
    if ((seen_ >> i & 1U) != 0) bad_request(fmt::format("more than one header {}", core::printable(name)));
    seen_ |= 1U << i;
    *once[i].second = value;
    if (i >= 4 && value.empty()) bad_request(fmt::format("the header {} is empty", core::printable(name)));
  }
}

void RequestReader::end_header() {
  const bool newer = head_.version == 11;
  head_.keep_alive = !lists(connection_, "close") && (newer || lists(connection_, "keep-alive"));
  if (!expectation_.empty() && lower_case(expectation_) != "100-continue") {
    throw RequestError(417, "the header Expect must be 100-continue, but is " + named(expectation_));
  }
  head_.expects_continue = newer && !expectation_.empty();
  n_overhead_ = 0;
  if (!coding_.empty()) {
    if (lower_case(coding_) != "chunked") bad_request("Transfer-Encoding must be chunked, but is " + named(coding_));
    if (!length_.empty()) bad_request("it has both Transfer-Encoding and Content-Length");
    if (!newer) bad_request("HTTP/1.0 has no Transfer-Encoding");
    head_.chunked = true;
    state_ = State::ChunkSize;
    return;
  }
  const bool digits = std::ranges::all_of(length_, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) bad_request("Content-Length is " + named(length_));
  if (!length_.empty()) {
    const auto [end, error] = std::from_chars(length_.data(), length_.data() + length_.size(), n_body_);
    if (error != std::errc() || n_body_ > limits_.max_body) {
      throw RequestError(413, fmt::format("the body is larger than {} bytes", limits_.max_body));
    }
  }
  head_.content_length = n_left_ = n_body_;
  state_ = n_left_ > 0 ? State::Data : State::Complete;
}

void RequestReader::take_chunk_size(std::string_view line) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto n_digits = static_cast<size_t>(end - line.data());
  const std::string_view extension = line.substr(n_digits);
  const bool sound = n_digits > 0 && n_digits <= kMaxSizeDigits && line.front() != '-' &&
                     (extension.empty() || extension.front() == ';');
  if (!sound) bad_request("the size of a chunk is " + named(line));
  n_overhead_ += extension.size();
  if (error != std::errc() || size > limits_.max_body - n_body_) {
    throw RequestError(413, fmt::format("the body is larger than {} bytes", limits_.max_body));
  }
  n_body_ += size;
  n_left_ = size;
  state_ = size > 0 ? State::Data : State::Trailer;
}

size_t RequestReader::read_data(std::string_view bytes) {
  const size_t n = std::min(bytes.size(), n_left_);
  if (!skips_body_) {
    const size_t needed = body_.size() + n;
    if (needed > body_.capacity()) {
      const size_t most = head_.chunked ? limits_.max_body : head_.content_length;
      std::string larger;  // append() could allocate twice as much
      larger.reserve(std::min(most, std::max(needed, 2 * body_.capacity())));
      larger += body_;
      body_ = std::move(larger);
    }
    body_.append(bytes.substr(0, n));
  }
  n_left_ -= n;
  if (n_left_ == 0) state_ = head_.chunked ? State::ChunkEnd : State::Complete;
  return n;
}

}  // namespace folio::infer::server
