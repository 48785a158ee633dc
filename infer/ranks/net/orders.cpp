#include "infer/ranks/net/orders.h"

#include <cstring>
#include <type_traits>

#include "core/error.h"

namespace folio::infer {
namespace {

// Writes values as raw bytes, since all ranks run the same build. A list starts with its length.
class BytesWriter {
 public:
  template <typename T>
  void values(std::span<const T> all) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(all);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <typename List>
  void resize(const List& list) {
    const uint64_t n = list.size();
    values(std::span(&n, 1));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class BytesReader {
 public:
  explicit BytesReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  void values(std::span<T> all) {
    core::require(all.size_bytes() <= bytes_.size(), "received a truncated order from rank 0");
    if (!all.empty()) std::memcpy(all.data(), bytes_.data(), all.size_bytes());
    bytes_ = bytes_.subspan(all.size_bytes());
  }
  template <typename List>
  void resize(List& list) {
    uint64_t n = 0;
    values(std::span(&n, 1));
    core::require(n <= bytes_.size(), "received a truncated order from rank 0");
    list.resize(n);
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

// Writes an order to a BytesWriter, or reads it from a BytesReader, field by field.
template <typename Archive, typename AnyOrder>
void visit(Archive& archive, AnyOrder& o) {
  const auto value = [&](auto&... all) { (archive.values(std::span(&all, 1)), ...); };
  const auto list = [&](auto&... all) { ((archive.resize(all), archive.values(std::span(all))), ...); };
  value(o.kind, o.stage, o.n_logit_rows, o.observed, o.operation, o.slot, o.number);
  list(o.rows, o.tables, o.table_starts, o.copies, o.values, o.adapter.path);
  archive.resize(o.adapter.parts);
  for (auto& part : o.adapter.parts) {
    value(part.role, part.layer, part.rank, part.scale);
    list(part.a, part.b);
  }
}

}  // namespace

Step Order::step() const {
  return {.rows = rows,
          .tables = tables,
          .table_starts = table_starts,
          .copies = copies,
          .n_logit_rows = n_logit_rows,
          .draws = {},
          .observed = observed,
          .residual = values};
}

Order order_of(uint32_t stage, const Step& step) {
  return {.kind = OrderKind::Step,
          .stage = stage,
          .rows = {step.rows.begin(), step.rows.end()},
          .tables = {step.tables.begin(), step.tables.end()},
          .table_starts = {step.table_starts.begin(), step.table_starts.end()},
          .copies = {step.copies.begin(), step.copies.end()},
          .n_logit_rows = step.n_logit_rows,
          .observed = step.observed,
          .values = {step.residual.begin(), step.residual.end()}};
}

std::vector<std::byte> to_bytes(const Order& order) {
  BytesWriter out;
  visit(out, order);
  return out.take();
}

Order to_order(std::span<const std::byte> bytes) {
  BytesReader in(bytes);
  Order order;
  visit(in, order);
  core::require(in.at_end(), "received an order from rank 0 with trailing bytes");
  return order;
}

}  // namespace folio::infer
