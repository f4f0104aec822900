// The lock-based skip list on libpmemobj's transactions, a usual baseline for persistent indexes: Herlihy's lazy skip
// list with every change in a transaction, as in S. Chowdhury, "A Scalable Recoverable Skip List for Persistent Memory
// on NUMA Machines", University of Waterloo 2021, section 5.1.2. Single-version.
//
// Nodes are in the pool, one key each, with a tower of PMEMoids, libpmemobj's pointers of two words. An insert locks
// the predecessors bottom-up, checks that they still are the predecessors, and makes and links the node in one
// transaction. An update writes the value in place, in a transaction, under the node's lock. Searches take no lock.
// YCSB removes nothing, so there are no deletion marks.
//
// Invariants:
//   L1. Locks are taken by descending keys, so waiting threads never form a cycle.
//   L2. A node with linking_in_run == this run's number is not committed yet: readers skip it.
//   L3. The values that a run leaves in locked_in_run and linking_in_run have no meaning in the next run: opening is
//       O(1).
//
// Two things favour it over the thesis' conversion: the lock is a word of the node, not a PMEMmutex of a cache line,
// and a value of 8 bytes is read without a lock, even before the update's transaction has committed.
//
// Source: M. Herlihy, Y. Lev, V. Luchangco, N. Shavit, "A Simple Optimistic Skiplist Algorithm", SIROCCO 2007.
#include <fmt/format.h>
#include <libpmemobj.h>

#include <array>
#include <bit>
#include <cerrno>
#include <thread>

#include "../measure.hpp"
#include "kinds.hpp"
#include "map.hpp"

namespace icecore::bench {
namespace {

constexpr unsigned levels_max = 32;
constexpr std::size_t key_size = sizeof(std::uint64_t);

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("libpmemobj: {}: {}", what, pmemobj_errormsg()));
}

/// OFFSET 0 key, 8 lock, 12 linking, 16 levels, 20 nothing, 24 tower, 24 + 16 * levels value.
struct node {
  std::uint64_t key;
  std::uint32_t locked_in_run;
  std::uint32_t linking_in_run;
  std::uint32_t levels;
  std::uint32_t unused;

  [[nodiscard]] PMEMoid& next(unsigned level) noexcept { return reinterpret_cast<PMEMoid*>(this + 1)[level]; }
  [[nodiscard]] char* value() noexcept { return reinterpret_cast<char*>(&next(levels)); }

  [[nodiscard]] static std::size_t bytes(unsigned levels, std::size_t value_size) noexcept {
    return sizeof(node) + levels * sizeof(PMEMoid) + value_size;
  }

  /// Null at the end of the list.
  [[nodiscard]] node* successor(unsigned level) noexcept {
    PMEMoid& link = next(level);
    // The pool's number in a link never changes. acquire: the contents of the node were written before the link.
    const std::uint64_t offset = std::atomic_ref(link.off).load(std::memory_order_acquire);
    return static_cast<node*>(pmemobj_direct({link.pool_uuid_lo, offset}));
  }
};
static_assert(sizeof(node) == 24 && alignof(node) == alignof(PMEMoid));

struct root {
  std::uint64_t run;
  std::uint64_t value_size;
  PMEMoid head;
};

/// Rolled back unless it was committed.
class transaction {
 public:
  explicit transaction(PMEMobjpool* pool) {
    if (pmemobj_tx_begin(pool, nullptr, TX_PARAM_NONE) != 0) fail("a transaction");
  }
  ~transaction() {
    if (pmemobj_tx_stage() == TX_STAGE_WORK) pmemobj_tx_abort(ECANCELED);
    pmemobj_tx_end();
  }
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  void change(const void* at, std::size_t bytes) {
    if (pmemobj_tx_add_range_direct(at, bytes) != 0) fail("a change");
  }
  [[nodiscard]] PMEMoid allocate(std::size_t bytes) {
    const PMEMoid made = pmemobj_tx_alloc(bytes, 1);
    if (OID_IS_NULL(made)) fail("an allocation");
    return made;
  }
  void commit() { pmemobj_tx_commit(); }
};

struct pool_closer {
  void operator()(PMEMobjpool* pool) const { pmemobj_close(pool); }
};

class skip_list {
 public:
  explicit skip_list(const opening& how);

  void insert(std::uint64_t key, std::string_view value, unsigned levels);
  void update(std::uint64_t key, std::string_view value);
  /// Copies the value to `out`, which has room for it.
  [[nodiscard]] bool read(std::uint64_t key, char* out);
  /// The first node that is not before `key`, then its successors; null: the end.
  [[nodiscard]] node* lower_bound(std::uint64_t key);
  [[nodiscard]] node* committed_after(node& at);
  void copy_value(node& of, char* out);

  [[nodiscard]] std::size_t value_size() const noexcept { return value_size_; }

 private:
  struct place {
    std::array<node*, levels_max> before;
    std::array<node*, levels_max> after;
  };
  class locks;  // the locks of a node's predecessors

  void create_head();
  [[nodiscard]] unsigned levels_in_use();
  void raise_levels(unsigned levels);
  [[nodiscard]] place search(std::uint64_t key);
  [[nodiscard]] node* find(std::uint64_t key);
  void link_new(std::uint64_t key, std::string_view value, unsigned levels, const place& where);
  void lock(node& n) const;
  static void unlock(node& n) { std::atomic_ref(n.locked_in_run).store(0, std::memory_order_release); }
  /// acquire: a thread that finds it committed sees its links
  [[nodiscard]] bool committed(node& n) const {
    return std::atomic_ref(n.linking_in_run).load(std::memory_order_acquire) != run_;
  }

  std::unique_ptr<PMEMobjpool, pool_closer> pool_;
  std::size_t value_size_ = 0;
  std::uint32_t run_ = 0;
  node* head_ = nullptr;
  std::atomic<unsigned> levels_{1};
};

class skip_list::locks {
 public:
  explicit locks(const skip_list& of) : of_(of) {}
  ~locks() {
    for (unsigned i = 0; i < count_; ++i) unlock(*held_[i]);
  }
  locks(const locks&) = delete;
  locks& operator=(const locks&) = delete;

  /// Does not lock again the node that was locked last; no other repetition occurs, because keys descend (L1).
  void take(node& n) {
    if (count_ != 0 && held_[count_ - 1] == &n) return;
    of_.lock(n);
    held_[count_++] = &n;
  }

 private:
  const skip_list& of_;
  std::array<node*, levels_max> held_{};
  unsigned count_ = 0;
};

/// The heap allocates units of 128 bytes; lanes, logs and an unused tail per thread come on top.
std::size_t pool_bytes(const opening& how) {
  constexpr std::size_t unit = 128, base = std::size_t{256} << 20;
  const std::size_t usual = 16 + node::bytes(2, how.value_size);  // with libpmemobj's header
  return base + how.keys * (usual + unit) / unit * unit * 5 / 4;
}

skip_list::skip_list(const opening& how) {
  constexpr const char* layout = "icecore-bench-skip-list";
  const std::string path = how.folder / "skip_list.pmemobj";
  const bool existed = std::filesystem::exists(path);
  pool_.reset(existed ? pmemobj_open(path.c_str(), layout)
                      : pmemobj_create(path.c_str(), layout, pool_bytes(how), 0600));
  if (!pool_) fail("a pool");
  const PMEMoid root_id = pmemobj_root(pool_.get(), sizeof(root));
  if (OID_IS_NULL(root_id)) fail("a root");
  auto& own = *static_cast<root*>(pmemobj_direct(root_id));
  if (OID_IS_NULL(own.head)) {
    own.value_size = how.value_size;
    pmemobj_persist(pool_.get(), &own, sizeof own);
    create_head();
  }
  ++own.run;
  pmemobj_persist(pool_.get(), &own.run, sizeof own.run);
  run_ = static_cast<std::uint32_t>(own.run);
  value_size_ = own.value_size;
  head_ = static_cast<node*>(pmemobj_direct(own.head));
  levels_ = levels_in_use();
}

void skip_list::create_head() {
  transaction changing(pool_.get());
  auto& own = *static_cast<root*>(pmemobj_direct(pmemobj_root(pool_.get(), sizeof(root))));
  const PMEMoid made = changing.allocate(node::bytes(levels_max, 0));
  auto& head = *new (pmemobj_direct(made))
                   node{.key = 0, .locked_in_run = 0, .linking_in_run = 0, .levels = levels_max, .unused = 0};
  for (unsigned level = 0; level < levels_max; ++level) head.next(level) = {made.pool_uuid_lo, 0};
  changing.change(&own.head, sizeof own.head);
  own.head = made;
  changing.commit();
}

unsigned skip_list::levels_in_use() {
  unsigned levels = levels_max;
  while (levels > 1 && head_->successor(levels - 1) == nullptr) --levels;
  return levels;
}

void skip_list::raise_levels(unsigned levels) {
  unsigned known = levels_.load(std::memory_order_relaxed);  // only a hint where searches begin
  while (known < levels && !levels_.compare_exchange_weak(known, levels, std::memory_order_relaxed)) {
  }
}

void skip_list::lock(node& n) const {
  constexpr unsigned tries_before_yield = 64;
  const std::atomic_ref lock(n.locked_in_run);
  for (unsigned tries = 1;; ++tries) {
    std::uint32_t seen = lock.load(std::memory_order_relaxed);  // the exchange decides
    // acquire: sees what the previous owner wrote
    if (seen != run_ && lock.compare_exchange_weak(seen, run_, std::memory_order_acquire)) return;
    if (tries % tries_before_yield == 0) std::this_thread::yield();
  }
}

skip_list::place skip_list::search(std::uint64_t key) {
  place found;
  node* at = head_;
  for (unsigned level = levels_.load(std::memory_order_relaxed); level-- > 0;) {
    node* next = at->successor(level);
    while (next != nullptr && next->key < key) {
      at = next;
      next = at->successor(level);
    }
    found.before[level] = at;
    found.after[level] = next;
  }
  return found;
}

node* skip_list::find(std::uint64_t key) {
  node* at = head_;
  for (unsigned level = levels_.load(std::memory_order_relaxed); level-- > 0;) {
    node* next = at->successor(level);
    while (next != nullptr && next->key < key) {
      at = next;
      next = at->successor(level);
    }
    if (next != nullptr && next->key == key) return committed(*next) ? next : nullptr;
  }
  return nullptr;
}

void skip_list::insert(std::uint64_t key, std::string_view value, unsigned levels) {
  raise_levels(levels);
  for (;;) {
    const place where = search(key);
    if (where.after[0] != nullptr && where.after[0]->key == key)
      throw std::logic_error("an insert of a key that already exists");
    locks held(*this);
    bool valid = true;
    for (unsigned level = 0; valid && level < levels; ++level) {
      held.take(*where.before[level]);
      valid = where.before[level]->successor(level) == where.after[level];
    }
    if (valid) return link_new(key, value, levels, where);
  }
}

void skip_list::link_new(std::uint64_t key, std::string_view value, unsigned levels, const place& where) {
  transaction changing(pool_.get());
  const PMEMoid made = changing.allocate(node::bytes(levels, value_size_));
  auto& added = *new (pmemobj_direct(made))
                    node{.key = key, .locked_in_run = 0, .linking_in_run = run_, .levels = levels, .unused = 0};
  for (unsigned level = 0; level < levels; ++level) added.next(level) = where.before[level]->next(level);
  std::memcpy(added.value(), value.data(), value_size_);
  for (unsigned level = 0; level < levels; ++level) {
    PMEMoid& link = where.before[level]->next(level);
    changing.change(&link, sizeof link);
    std::atomic_ref(link.off).store(made.off, std::memory_order_release);  // the node is complete
  }
  changing.commit();
  std::atomic_ref(added.linking_in_run).store(0, std::memory_order_release);  // readers may act on it (L2)
}

void skip_list::update(std::uint64_t key, std::string_view value) {
  node* const found = find(key);
  if (found == nullptr) throw std::logic_error("an update of a key that does not exist");
  locks held(*this);
  held.take(*found);
  transaction changing(pool_.get());
  changing.change(found->value(), value_size_);
  if (value_size_ == sizeof(std::uint64_t)) {
    // relaxed: a value is one word, and no other data depends on it
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(found->value()))
        .store(number_of(value), std::memory_order_relaxed);
  } else {
    std::memcpy(found->value(), value.data(), value_size_);
  }
  changing.commit();
}

void skip_list::copy_value(node& of, char* out) {
  if (value_size_ == sizeof(std::uint64_t)) {
    const std::uint64_t word =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(of.value())).load(std::memory_order_relaxed);  // as above
    std::memcpy(out, &word, sizeof word);
    return;
  }
  locks held(*this);  // else the value might be copied while it is half written
  held.take(of);
  std::memcpy(out, of.value(), value_size_);
}

bool skip_list::read(std::uint64_t key, char* out) {
  node* const found = find(key);
  if (found == nullptr) return false;
  copy_value(*found, out);
  return true;
}

node* skip_list::lower_bound(std::uint64_t key) {
  node* const first = search(key).after[0];
  return first == nullptr || committed(*first) ? first : committed_after(*first);
}

node* skip_list::committed_after(node& at) {
  node* next = at.successor(0);
  while (next != nullptr && !committed(*next)) next = next->successor(0);
  return next;
}

std::uint64_t number_of_key(std::string_view key) {
  if (key.size() != key_size) throw std::invalid_argument("this skip list has keys of 8 bytes alone");
  return __builtin_bswap64(number_of(key));
}

class skip_list_session final : public map_session {
 public:
  skip_list_session(skip_list& list, std::uint64_t seed) : list_(list), random_(seed), value_(list.value_size()) {}

  void insert(std::string_view key, std::string_view value) override {
    require_size(value);
    list_.insert(number_of_key(key), value, random_levels());
  }
  void update(std::string_view key, std::string_view value) override {
    require_size(value);
    list_.update(number_of_key(key), value);
  }
  std::optional<std::string_view> read(std::string_view key) override {
    if (!list_.read(number_of_key(key), value_.data())) return std::nullopt;
    return std::string_view(value_.data(), value_.size());
  }
  /// Not a state at one instant: the list has no snapshots.
  void scan(std::string_view from, std::size_t count, pair_columns& out) override {
    for (node* at = list_.lower_bound(number_of_key(from)); at != nullptr && out.count() < count;
         at = list_.committed_after(*at)) {
      const std::uint64_t big_endian = __builtin_bswap64(at->key);
      list_.copy_value(*at, value_.data());
      out.add({reinterpret_cast<const char*>(&big_endian), key_size}, {value_.data(), value_.size()});
    }
  }

 private:
  void require_size(std::string_view value) const {
    if (value.size() != value_.size()) throw std::invalid_argument("a value of another size than the skip list's");
  }

  /// Each further level with a probability of one half.
  unsigned random_levels() {
    const auto heads = static_cast<unsigned>(std::countr_zero(random_.below(std::uint64_t{1} << (levels_max - 1))));
    return std::min(heads, levels_max - 1) + 1;
  }

  skip_list& list_;
  random_numbers random_;
  std::vector<char> value_;
};

class pmemobj_map final : public map {
 public:
  explicit pmemobj_map(const opening& how) : list_(how) {}
  std::unique_ptr<map_session> new_session() override {
    return std::make_unique<skip_list_session>(list_, sessions_.fetch_add(1));
  }

 private:
  skip_list list_;
  std::atomic<std::uint64_t> sessions_{1};
};

}  // namespace

std::vector<store_kind> pmemobj_skip_list_kinds() {
  return {{.name = "pmemobj",
           .configuration = "libpmemobj " + std::to_string(PMEMOBJ_MAJOR_VERSION) + "." +
                            std::to_string(PMEMOBJ_MINOR_VERSION) +
                            ". A lazy skip list with a lock a node, changed by transactions, single-version; "
                            "PMEM_IS_PMEM_FORCE=1, so that its flushes are executed instead of msync.",
           .survives_kill = true,
           .parallel_extract = false,
           .open_map = [](const opening& how) { return std::make_unique<pmemobj_map>(how); }}};
}

}  // namespace icecore::bench
