#include "data/documents.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "data/corpus.h"
#include "data/tokenizers/pre_tokenizer.h"

namespace folio::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{16} << 20U;
constexpr size_t kBlock = size_t{4} << 20U;  // bytes of a compressed file that are decompressed at a time

bool ends_with(const fs::path& path, std::string_view ending) { return path.filename().string().ends_with(ending); }
bool has_lines(const fs::path& path) { return ends_with(path, ".jsonl") || ends_with(path, ".jsonl.gz"); }
bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// Processes the complete pieces or lines at the beginning of `text`, and if `is_last`, all of it. Returns the number of
// bytes processed. `n_read` is the number of bytes read so far from all files.
using TakeText = std::function<size_t(std::string_view text, bool is_last, uint64_t n_read)>;
using TakeLine = std::function<void(std::string_view line, const std::string& where, uint64_t n_read)>;

// Cuts plain text into pieces of documents.
class Cutter {
 public:
  Cutter(const std::string& where, const std::function<void(const Documents::Piece&)>& take)
      : where_(where), take_(take) {}

  size_t cut(std::string_view text, bool is_last, uint64_t n_read) {
    n_read_ = n_read;
    size_t at = 0;
    for (size_t end = text.find(kDocumentEnd); end != std::string_view::npos; end = text.find(kDocumentEnd, at)) {
      end_document(text.substr(at, end - at));
      at = end + kDocumentEnd.size();
    }
    if (is_last) {
      end_document(text.substr(at));
      return text.size();
    }
    for (size_t end = 0; text.size() - at > kPiece; at = end) {
      end = word_border(text, at + kPiece);
      if (end == text.size()) break;
      emit(text.substr(at, end - at), false);
    }
    return at;
  }

 private:
  void emit(std::string_view text, bool ends) {
    const bool is_empty = text.empty() && !begun_;
    begun_ = !ends && (begun_ || !text.empty());
    if (!is_empty) take_({.text = text, .ends_document = ends, .where = where_, .n_read = n_read_});
  }

  void end_document(std::string_view text) {
    for_parts(text, kPiece, [&](std::string_view part) { emit(part, false); });
    emit({}, true);
  }

  const std::string& where_;
  const std::function<void(const Documents::Piece&)>& take_;
  bool begun_ = false;  // a piece of the current document has been passed to take_
  uint64_t n_read_ = 0;
};

void read_compressed(const fs::path& path, uint64_t n_before, const TakeText& take) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  core::require(file != nullptr, "cannot read {}", path.string());
  std::string text;
  for (bool more = true; more;) {
    const size_t n = text.size();
    text.resize(n + kBlock);
    const int got = gzread(file.get(), text.data() + n, static_cast<unsigned>(kBlock));
    text.resize(n + static_cast<size_t>(std::max(got, 0)));
    more = got == static_cast<int>(kBlock);
    int error = Z_OK;
    const char* why = gzerror(file.get(), &error);
    core::require(got >= 0 && error == Z_OK, "cannot decompress {}: {}", path.string(), why);
    const z_off_t at = gzoffset(file.get());
    text.erase(0, take(text, !more, n_before + static_cast<uint64_t>(std::max<z_off_t>(at, 0))));
  }
}

// Reads a mapped file in blocks, and releases the memory of blocks already read.
void read_mapped(const fs::path& path, uint64_t n_before, const TakeText& take) {
  const core::MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = 0;
  for (size_t end = 0; end < text.size();) {
    end = std::min(text.size(), std::max(end, at) + 2 * kPiece);
    const size_t n = take(text.substr(at, end - at), end == text.size(), n_before + end);
    file.release(bytes.subspan(at, n));
    at += n;
  }
}

void read_file(const fs::path& path, uint64_t n_before, const TakeText& take) {
  if (ends_with(path, ".gz")) {
    read_compressed(path, n_before, take);
  } else if (core::size_of_file(path) > 0) {
    read_mapped(path, n_before, take);
  }
}

// Calls `take` for each line of a file that is not blank.
void read_lines_of(const fs::path& path, uint64_t n_before, const TakeLine& take) {
  size_t n_lines = 0;
  read_file(path, n_before, [&](std::string_view text, bool is_last, uint64_t n_read) {
    for (size_t at = 0, end = 0;; at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      if (end == text.size() && !is_last) return at;
      const std::string_view line = text.substr(at, end - at);
      ++n_lines;
      if (!is_blank(line)) take(line, fmt::format("{}: line {}", path.string(), n_lines), n_read);
      if (end == text.size()) return end;
    }
  });
}

}  // namespace

Documents::Documents(const std::vector<std::string>& paths, std::string field) : field_(std::move(field)) {
  for (const std::string& path : paths) {
    core::require(core::path_exists(path), "the text {} does not exist", core::printable(path));
    if (!core::is_folder(path)) {
      files_.emplace_back(path);
      continue;
    }
    const std::vector<fs::path> files = core::files_below(path);
    core::require(!files.empty(), "the folder {} has no files", core::printable(path));
    files_.insert(files_.end(), files.begin(), files.end());
  }
  for (const fs::path& file : files_) n_bytes_ += core::size_of_file(file);
}

void Documents::read(const std::function<void(const Piece&)>& take) const {
  uint64_t n_before = 0;
  for (const fs::path& file : files_) {
    const std::string name = file.string();
    if (has_lines(file)) {
      read_lines_of(file, n_before, [&](std::string_view line, const std::string& where, uint64_t n_read) {
        const nlohmann::json object = core::parse_json(line, where);
        core::require(object.is_object(), "{}: not a JSON object", where);
        const auto text = core::json_get<std::string>(object, field_, where);
        if (!text.empty()) take({.text = text, .ends_document = true, .where = name, .n_read = n_read});
      });
    } else {
      Cutter cutter(name, take);
      read_file(file, n_before, std::bind_front(&Cutter::cut, &cutter));
    }
    n_before += core::size_of_file(file);
  }
}

void Documents::read_lines(const std::function<void(std::string_view, const std::string&)>& take) const {
  for (const fs::path& file : files_) {
    core::require(has_lines(file), "{}: not a JSON Lines file (.jsonl or .jsonl.gz)", file.string());
    read_lines_of(file, 0, [&](std::string_view line, const std::string& where, uint64_t) { take(line, where); });
  }
}

std::optional<std::string> Documents::first_line() const {
  if (files_.empty() || !has_lines(files_.front())) return {};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(files_.front().c_str(), "rb"),
                                                        gzclose);  // gzopen() also reads uncompressed files
  std::string line;
  for (int c = 0; file != nullptr && (c = gzgetc(file.get())) >= 0;) {
    if (c != '\n') {
      line += static_cast<char>(c);
    } else if (!is_blank(line)) {
      break;
    } else {
      line.clear();
    }
  }
  return is_blank(line) ? std::optional<std::string>() : line;
}

void Documents::read_together(const std::function<void(std::span<const std::string>, const std::string&)>& take,
                              const std::function<void(uint64_t)>& progress) const {
  constexpr size_t kTogether = size_t{64} << 20U;
  std::vector<std::string> pieces;
  size_t n_bytes = 0;
  read([&](const Piece& piece) {
    if (!piece.text.empty()) pieces.emplace_back(piece.text);
    n_bytes += piece.text.size();
    if (progress) progress(piece.n_read);
    if (n_bytes < kTogether) return;
    take(pieces, piece.where);
    pieces.clear();
    n_bytes = 0;
  });
  if (!pieces.empty()) take(pieces, files_.back().string());
}

TextFiles find_texts(const std::vector<std::string>& datasets, const std::string& field) {
  core::require(!datasets.empty(), "no text was given");
  std::vector<std::string> paths;
  for (const std::string& dataset : datasets) paths.push_back(core::absolute_path(path_of_dataset(dataset)).string());
  Documents documents(paths, field);
  return {.name = dataset_name(datasets.front()),
          .paths = std::move(paths),
          .field = field,
          .documents = std::move(documents)};
}

}  // namespace folio::data
