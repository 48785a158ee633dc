// Documents from files of any size: plain texts, with <|endoftext|> between documents, and JSON lines, one document
// each; both optionally compressed by gzip. They are read in pieces, so memory use does not depend on their size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

/// Separates documents in a plain text.
inline constexpr std::string_view kDocumentEnd = "<|endoftext|>";

class Documents {
 public:
  /// Accepts files and directories, whose files are read in order of their names. Files named .jsonl and .jsonl.gz have
  /// a JSON object per line, with the text in `field`; all others are plain texts. Throws core::Error that names a
  /// missing file or an empty directory.
  explicit Documents(const std::vector<std::string>& paths, std::string field = "text");

  /// A piece of a document: whole characters, cut at a word_border(). `n_read` is the number of bytes read so far.
  struct Piece {
    std::string_view text;
    bool ends_document;
    const std::string& where;  ///< the file, for errors
    uint64_t n_read;
  };
  /// Calls `take` for each piece, except empty documents. Throws core::Error with the file and the line of bad JSON.
  void read(const std::function<void(const Piece&)>& take) const;

  /// Calls `take` for each line that is not blank; `where` is its location, for errors. Throws core::Error that names a
  /// file which is not .jsonl, or cannot be read.
  void read_lines(const std::function<void(std::string_view line, const std::string& where)>& take) const;
  /// Returns the first line that is not blank; nullopt if the first file is not .jsonl, or is empty.
  [[nodiscard]] std::optional<std::string> first_line() const;

  /// Calls `take` with the texts of many pieces at once, so that all threads have work; `where` is the file of the last
  /// one. Calls `progress` after each piece with the number of bytes read so far.
  void read_together(const std::function<void(std::span<const std::string> texts, const std::string& where)>& take,
                     const std::function<void(uint64_t n_read)>& progress = {}) const;

  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }  ///< of the files as stored, compressed or not
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::string field_;
  uint64_t n_bytes_ = 0;
};

/// The texts that a run is trained on.
struct TextFiles {
  std::string name;                ///< "tinyshakespeare", or the first file's or directory's name without extension
  std::vector<std::string> paths;  ///< absolute
  std::string field;               ///< of JSON lines
  Documents documents;
};

/// Finds "tinyshakespeare" (downloaded if missing), files and directories. Throws core::Error as Documents does.
[[nodiscard]] TextFiles find_texts(const std::vector<std::string>& datasets, const std::string& field = "text");

}  // namespace folio::data
