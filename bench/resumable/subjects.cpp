#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "../pdt/map.hpp"
#include "icecore/icecore.hpp"
#include "subject.hpp"

namespace icecore::bench::resumable {

bool matches(std::string_view item) {
  std::uint64_t number = 0;
  std::memcpy(&number, item.data(), sizeof number);
  return number % 10 == 0;
}

void fill(std::span<char> space, std::uint64_t key) { std::memcpy(space.data(), &key, sizeof key); }

namespace {

constexpr unsigned levels = 20;  // of skip lists

// ---- icecore ----

class icecore_subject final : public subject {
 public:
  explicit icecore_subject(const opening& how) : store_(how.folder / "store.ice", options_of(how)) {}

  bool insert(std::uint64_t key, std::string_view item) override {
    return store_.insert_new(bytes_of(key), item).has_value();
  }
  bool remove(std::uint64_t key) override { return store_.remove(bytes_of(key)).has_value(); }
  bool get(std::uint64_t key) override {
    const auto found = store_.find(bytes_of(key));
    return found.has_value();
  }

  std::uint64_t query(const std::function<void()>& on_item) override {
    const auto asks = [on_item](const item& one) {
      on_item();
      return matches(one.value);
    };
    const auto find = [&](std::string_view function, std::uint64_t revision) {
      return caller_function{std::string(function), revision, of_block(asks)};
    };
    icecore::query asked = [&] {
      for (const icecore::query& q : store_.queries()) {
        if (q.name() == name) return store_.query(name, find);
      }
      return store_.start({.name = name, .where = filter::of("figure", 1, item_function(asks))});
    }();
    const std::uint64_t rows = asked.run({.every_item = true}).rows;  // "every inch of progress"
    asked.drop();
    return rows;
  }
  [[nodiscard]] std::uint64_t bytes() const override { return store_.stats().used_bytes; }

 private:
  static constexpr const char* name = "figure";

  static block_function of_block(const item_function& f) {
    return [f](std::span<const item> items, std::span<bool> flags) {
      for (std::size_t i = 0; i < items.size(); ++i) flags[i] = f(items[i]);
    };
  }
  static options options_of(const opening& how) {
    options chosen;
    chosen.durability = durability::operation;
    chosen.emulate_durability = true;
    chosen.index = how.is == structure::skip_list ? index_kind::skip_list : index_kind::hash;
    return chosen;
  }
  /// Big-endian, so that the order of the bytes is that of the numbers. The view is good until the next call.
  static std::string_view bytes_of(std::uint64_t key) {
    thread_local std::array<char, sizeof key> bytes;
    bytes = std::bit_cast<std::array<char, sizeof key>>(__builtin_bswap64(key));
    return {bytes.data(), bytes.size()};
  }

  store store_;
};

// ---- The paper's data types ----

template <unsigned levels_max>
class pdt_subject final : public subject {
 public:
  explicit pdt_subject(const opening& how)
      : map_(how.folder / "map.pdt",
             {.item_size = how.item_size, .slots = how.keys + how.inserts, .tombstones = how.inserts},
             levels_max == 1 ? std::max<std::uint64_t>(how.keys / 2, 1) : 1) {}

  bool insert(std::uint64_t key, std::string_view item) override { return map_.insert(key, item); }
  bool remove(std::uint64_t key) override { return map_.remove(key); }
  bool get(std::uint64_t key) override { return map_.get(key).has_value(); }
  std::uint64_t query(const std::function<void()>& on_item) override { return map_.filter(asks_, on_item).size(); }
  [[nodiscard]] std::uint64_t bytes() const override { return map_.used_bytes(); }

 private:
  pdt::condition asks_ = matches;  // outlives a query that on_item stops
  pdt::durable_map<levels_max> map_;
};

// ---- Volatile, and with a file of progress ----

/// Keys and items that were evaluated, one after another, each synced before the next one is evaluated.
class progress_file {
 public:
  progress_file(const std::filesystem::path& path, std::size_t item_size)
      : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), record_(8 + item_size) {
    if (descriptor_ < 0) fail();
  }
  ~progress_file() { ::close(descriptor_); }
  progress_file(const progress_file&) = delete;
  progress_file& operator=(const progress_file&) = delete;

  /// What was noted: the matches so far, and the last key.
  std::uint64_t read(std::optional<std::uint64_t>& last) {
    std::uint64_t found = 0;
    for (; ::pread(descriptor_, record_.data(), record_.size(), at_) == static_cast<ssize_t>(record_.size());
         at_ += static_cast<off_t>(record_.size())) {
      std::uint64_t key = 0;
      std::memcpy(&key, record_.data(), sizeof key);
      last = key;
      if (matches({record_.data() + sizeof key, record_.size() - sizeof key})) ++found;
    }
    return found;
  }
  void note(std::uint64_t key, std::string_view item) {
    std::memcpy(record_.data(), &key, sizeof key);
    std::memcpy(record_.data() + sizeof key, item.data(), item.size());
    if (::pwrite(descriptor_, record_.data(), record_.size(), at_) != static_cast<ssize_t>(record_.size())) fail();
    if (::fdatasync(descriptor_) != 0) fail();
    at_ += static_cast<off_t>(record_.size());
  }
  void clear() {
    if (::ftruncate(descriptor_, 0) != 0) fail();
    at_ = 0;
  }

 private:
  [[noreturn]] void fail() const { throw std::system_error(errno, std::generic_category(), path_.string()); }

  std::filesystem::path path_;
  int descriptor_;
  off_t at_ = 0;
  std::vector<char> record_;
};

template <unsigned levels_max>
class plain_subject final : public subject {
 public:
  plain_subject(const opening& how, bool notes_progress)
      : map_(how.item_size, levels_max == 1 ? std::max<std::uint64_t>(how.keys / 2, 1) : 1) {
    if (notes_progress) file_ = std::make_unique<progress_file>(how.folder / "progress", how.item_size);
  }

  bool insert(std::uint64_t key, std::string_view item) override { return map_.insert(key, item); }
  bool remove(std::uint64_t key) override { return map_.remove(key); }
  bool get(std::uint64_t key) override { return map_.get(key).has_value(); }

  std::uint64_t query(const std::function<void()>& on_item) override {
    std::optional<std::uint64_t> last;
    const std::uint64_t before = file_ ? file_->read(last) : 0;
    const auto keys = map_.filter(matches, last, [&](std::uint64_t key, std::string_view item) {
      on_item();
      if (file_) file_->note(key, item);
    });
    if (file_) file_->clear();
    return before + keys.size();
  }

 private:
  pdt::plain_map<levels_max> map_;
  std::unique_ptr<progress_file> file_;
};

std::unique_ptr<subject> plain(const opening& how, bool notes_progress) {
  if (how.is == structure::skip_list) return std::make_unique<plain_subject<levels>>(how, notes_progress);
  return std::make_unique<plain_subject<1>>(how, notes_progress);
}

}  // namespace

const std::vector<kind>& all_kinds() {
  static const std::vector<kind> kinds = {
      {.name = "icecore",
       .what = "every write durable, a kept query whose every evaluation is durable",
       .durable = true,
       .on_disk = false,
       .open = [](const opening& how) { return std::make_unique<icecore_subject>(how); }},
      {.name = "PDT",
       .what = "the paper's data types, written from its section 3",
       .durable = true,
       .on_disk = false,
       .open = [](const opening& how) -> std::unique_ptr<subject> {
         if (how.is == structure::skip_list) return std::make_unique<pdt_subject<levels>>(how);
         return std::make_unique<pdt_subject<1>>(how);
       }},
      {.name = "volatile",
       .what = "the same lists in plain memory, whose query starts again",
       .durable = false,
       .on_disk = false,
       .open = [](const opening& how) { return plain(how, false); }},
      {.name = "FS",
       .what = "volatile, and each item evaluated is written to a file in memory and synced",
       .durable = false,
       .on_disk = false,
       .open = [](const opening& how) { return plain(how, true); }},
      {.name = "FS-disk",
       .what = "the same with a file on a disk",
       .durable = false,
       .on_disk = true,
       .open = [](const opening& how) { return plain(how, true); }},
  };
  return kinds;
}

}  // namespace icecore::bench::resumable
