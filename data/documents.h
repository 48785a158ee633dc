// Reads documents from files of any size, in pieces, so memory use is constant. A plain text file separates documents
// by <|endoftext|>; a JSON lines file has one document per line. Both may be compressed by gzip.
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

/// Separates documents in a plain text file.
inline constexpr std::string_view kDocumentEnd = "<|endoftext|>";

class Documents {
 public:
  /// `paths` are files and directories. A directory stands for the files below it in order of their paths, except those
  /// whose names begin with a period. Files named .jsonl and .jsonl.gz have a JSON object per line, with the text in
  /// `field`; all others are plain text. Throws core::Error that names a missing file or an empty directory.
  explicit Documents(const std::vector<std::string>& paths, std::string field = "text");

  /// A piece of a document, cut at word_border(), which changes no word. `n_read` counts the bytes read so far from
  /// all files.
  struct Piece {
    std::string_view text;
    bool ends_document;
    const std::string& where;  ///< the file, for errors
    uint64_t n_read;
  };
  /// Calls `take` for each piece; skips empty documents. Throws core::Error with the file and line of invalid JSON.
  void read(const std::function<void(const Piece&)>& take) const;

  /// Calls `take` for each line that is not blank, with its file and line number as `where`. Throws core::Error that
  /// names a file if it is not .jsonl or cannot be read.
  void read_lines(const std::function<void(std::string_view line, const std::string& where)>& take) const;
  /// Returns the first line that is not blank; nullopt if the first file is not .jsonl, or is empty.
  [[nodiscard]] std::optional<std::string> first_line() const;

  /// Calls `take` with several pieces to process in parallel, at least 64 MiB of text except in the last call.
  /// `where` is the file of the last piece. Calls `progress` after each piece with the number of bytes read so far.
  void read_together(const std::function<void(std::span<const std::string> texts, const std::string& where)>& take,
                     const std::function<void(uint64_t n_read)>& progress = {}) const;

  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }  ///< total size of the files as stored, compressed or not
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::string field_;
  uint64_t n_bytes_ = 0;
};

/// The texts that a model is trained on.
struct TextFiles {
  std::string name;                ///< "tinyshakespeare", or the name of the first file or directory without extension
  std::vector<std::string> paths;  ///< absolute paths of the files and directories
  std::string field;               ///< key of a document's text in JSON lines
  Documents documents;
};

/// Finds the texts of `datasets`, each "tinyshakespeare" (downloaded if missing), a file or a directory. `field` is the
/// key of a document's text in JSON lines. Throws core::Error as Documents does.
[[nodiscard]] TextFiles find_texts(const std::vector<std::string>& datasets, const std::string& field = "text");

}  // namespace folio::data
