// The answer to a request, written only as fast as the client reads it. The queued output consists of functions that
// produce the text when the client can accept more, so that even a long answer needs little memory.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace folio::infer::server {

/// A source of text: each call appends the next piece, a few kilobytes at most. Returns false after the last piece.
using TextSource = std::function<bool(std::string& text)>;

[[nodiscard]] TextSource literal(std::string text);
/// Returns a source that concatenates `sources`.
[[nodiscard]] TextSource joined(std::vector<TextSource> sources);
/// Returns a source of `prefix`, n elements separated by commas, and `suffix`. `element`(i, text) appends element i.
[[nodiscard]] TextSource listed(std::string prefix, size_t n, std::function<void(size_t i, std::string& text)> element,
                                std::string suffix);
/// Returns a source of `first`, which may be null, and `second`, escaped for use in a JSON string.
[[nodiscard]] TextSource escaped(std::shared_ptr<const std::string> first, std::shared_ptr<const std::string> second);

inline constexpr size_t kReplyWindow = size_t{64} << 10U;  ///< number of unsent bytes at which output is paused

/// The answer to one request. Must be used on the thread that called the handler. Discards output after a disconnect.
class HttpReply : public std::enable_shared_from_this<HttpReply> {
 public:
  virtual ~HttpReply() = default;

  /// Adds a header. Must be called before send() or begin().
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  /// Sends a whole answer, with Content-Length if it is short. An empty content type means that there is no body. Calls
  /// `ended`, if set, when the whole body was produced; up to about kReplyWindow bytes may still be unsent then.
  void send(int status, std::string_view content_type, TextSource body, std::function<void()> ended = {});
  void send(int status, std::string_view content_type, std::string body) {
    send(status, content_type, literal(std::move(body)));
  }

  // To send an answer in pieces, call begin(), add() for each piece, and end().
  void begin(int status, std::string_view content_type);
  /// Queues a piece. Once all of it was written, the function set by on_written() receives `cost`.
  void add(TextSource source, size_t cost = 0);
  void on_written(std::function<void(size_t cost)> written) { written_ = std::move(written); }
  void end(std::function<void()> ended = {});

  /// Ends the answer with an error. Discards queued output, and sends `body`, or `event` (a server-sent event) if the
  /// answer has begun. If a source was written only in part, closes the connection instead, so that the client notices.
  void fail(int status, const std::string& body, std::string_view event);
  /// Calls `lost` once if the client disconnects or reads nothing for too long before the answer's end.
  void on_lost(std::function<void()> lost);
  /// Returns the number of bytes that were produced and not sent to the client yet.
  [[nodiscard]] virtual size_t unsent() const = 0;

 protected:
  /// Writes the status line and headers of an answer. `length` is the body's size in bytes; nullopt: unknown.
  virtual void put_head(int status, std::string_view content_type, std::optional<size_t> length) = 0;
  virtual void put(std::string_view piece) = 0;
  virtual void finish() = 0;
  virtual void close() = 0;

  /// Resets this object for the next answer on the connection.
  void reopen();
  /// Writes queued output until there is no more, or kReplyWindow bytes are unsent.
  void pump();
  /// Closes the connection after the client has disconnected, and calls the function set by on_lost().
  void lose();

 private:
  struct Entry {
    TextSource source;
    size_t cost;
  };
  [[nodiscard]] static bool fill(const TextSource& source, std::string& piece);
  void release();

  std::deque<Entry> entries_{};
  std::function<void(size_t cost)> written_{};
  std::function<void()> ended_{};
  std::function<void()> lost_{};
  bool is_open_ = true;  ///< true: more output may be written
  bool has_begun_ = false;
  bool is_inside_ = false;  ///< true: a source was written in part
  bool ends_ = false;
};

}  // namespace folio::infer::server
