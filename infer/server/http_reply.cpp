#include "infer/server/http_reply.h"

#include <algorithm>
#include <utility>

#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

constexpr size_t kPiece = size_t{16} << 10U;

}  // namespace

TextSource literal(std::string text) {
  return [own = std::move(text)](std::string& out) {
    out += own;
    return false;
  };
}

TextSource joined(std::vector<TextSource> sources) {
  return [sources = std::move(sources), i = size_t{0}](std::string& text) mutable {
    if (i < sources.size() && !sources[i](text)) sources[i++] = {};
    return i < sources.size();
  };
}

TextSource listed(std::string prefix, size_t n, std::function<void(size_t, std::string&)> element, std::string suffix) {
  return [prefix = std::move(prefix), suffix = std::move(suffix), element = std::move(element), n,
          i = size_t{0}](std::string& text) mutable {
    if (i == 0) text += prefix;
    if (i < n) {
      if (i > 0) text += ',';
      element(i++, text);
    }
    if (i < n) return true;
    text += suffix;
    return false;
  };
}

TextSource escaped(std::shared_ptr<const std::string> first, std::shared_ptr<const std::string> second) {
  return [first = std::move(first), second = std::move(second), at = size_t{0}](std::string& out) mutable {
    const std::string_view a = first == nullptr ? std::string_view() : *first;
    const std::string_view b = *second;
    const size_t size = a.size() + b.size();
    const auto continues = [&](size_t i) {  // true if byte i is not the first of a UTF-8 character
      return (static_cast<uint8_t>(i < a.size() ? a[i] : b[i - a.size()]) & 0xC0U) == 0x80U;
    };
    size_t end = std::min(at + kPiece, size);
    while (end < size && continues(end)) ++end;
    std::string part(a.substr(std::min(at, a.size()), end - at));
    if (end > a.size()) part += b.substr(at + part.size() - a.size(), end - at - part.size());
    at = end;
    const std::string json = dump(part);
    out.append(json, 1, json.size() - 2);
    return at < size;
  };
}

bool HttpReply::fill(const TextSource& source, std::string& piece) {
  bool more = true;
  while (more && piece.size() < kPiece) more = source(piece);
  return more;
}

void HttpReply::send(int status, std::string_view content_type, TextSource body, std::function<void()> ended) {
  if (!is_open_) return;
  std::string piece;
  if (!fill(body, piece)) {
    release();
    put_head(status, content_type, piece.size());
    put(piece);
    finish();
    if (ended) ended();
    return;
  }
  begin(status, content_type);
  is_inside_ = true;
  put(piece);
  add(std::move(body));
  end(std::move(ended));
}

void HttpReply::begin(int status, std::string_view content_type) {
  if (!is_open_) return;
  has_begun_ = true;
  put_head(status, content_type, {});
  put({});
}

void HttpReply::add(TextSource source, size_t cost) {
  if (!is_open_) return;
  entries_.push_back({.source = std::move(source), .cost = cost});
  pump();
}

void HttpReply::end(std::function<void()> ended) {
  if (!is_open_) return;
  ends_ = true;
  ended_ = std::move(ended);
  pump();
}

void HttpReply::fail(int status, const std::string& body, std::string_view event) {
  if (!is_open_) return;
  if (!has_begun_) return send(status, "application/json", body);
  release();
  if (is_inside_) return close();
  put(event);
  finish();
}

void HttpReply::on_lost(std::function<void()> lost) {
  if (!is_open_) return lost();
  lost_ = std::move(lost);
}

void HttpReply::reopen() {
  release();
  is_open_ = true;
  has_begun_ = is_inside_ = ends_ = false;
}

void HttpReply::release() {
  is_open_ = false;
  entries_.clear();
  written_ = {};
  ended_ = {};
  lost_ = {};
}

void HttpReply::lose() {
  const auto lost = std::exchange(lost_, {});
  release();
  close();
  if (lost) lost();
}

void HttpReply::pump() {
  size_t cost = 0;
  const auto self = shared_from_this();  // keeps this object alive if put() finds that the client disconnected
  while (is_open_ && !entries_.empty() && unsent() < kReplyWindow) {
    std::string piece;
    is_inside_ = fill(entries_.front().source, piece);
    if (!is_inside_) {
      cost += entries_.front().cost;
      entries_.pop_front();
    }
    put(piece);
  }
  if (cost > 0 && written_) written_(cost);
  if (!is_open_ || !ends_ || !entries_.empty()) return;
  const auto ended = std::exchange(ended_, {});
  release();
  finish();
  if (ended) ended();
}

}  // namespace folio::infer::server
