// A store to be damaged: small, of a kind and a seed, with the truth of it, and what else may get into its place.
//
//   const subject s = make_subject({index_kind::persistent, ended::killed, 2}, seed);
//   machine::get().assign(machine::checked, s.files.view());     // as it was left
//
// All lies on the simulated machine (tests/crash/machine.hpp), as the store machine::checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examination.hpp"
#include "files.hpp"
#include "machine.hpp"
#include "truth.hpp"

namespace icecore::damaging {

enum class ended { closed, killed };

struct store_kind {
  index_kind index;
  ended how;
  unsigned files;

  [[nodiscard]] std::string name() const;
};

/// All twelve of them.
[[nodiscard]] std::vector<store_kind> all_kinds();

struct subject {
  store_kind kind;
  options opening;  ///< for writing
  crash::device on;
  std::uint64_t boot;  ///< of the machine that opens it
  crash::kept_files files;
  std::vector<crash::kept_files> older;  ///< the same store as each session before left it
  crash::kept_files foreign;             ///< another store
  std::vector<operation> done;
  std::map<std::string, place> entries;  ///< of each key: where its head is

  /// The machine as whoever opens the store finds it, with these bytes.
  void put(const crash::left_files& bytes) const;
};

[[nodiscard]] subject make_subject(const store_kind& kind, std::uint64_t seed);

/// Whether anything of some bytes was changed.
class changed_bytes {
 public:
  changed_bytes(const crash::left_files& before, const crash::left_files& after) : before_(before), after_(after) {}
  [[nodiscard]] bool none() const;
  [[nodiscard]] bool touch(const place& p) const;
  /// Whether some of these bytes were changed and now all are as in `earlier`, where what the file did not have is
  /// zero.
  [[nodiscard]] bool restore(const place& p, const crash::left_files& earlier) const;

 private:
  crash::left_files before_;
  crash::left_files after_;
};

/// The truths of which none can be told from the others once these bytes are changed: the first one is that of an
/// undamaged store. docs/guarantees.md, "What is detected, and what cannot be": of a killed store, what a writer wrote
/// last may be missing where nothing intact lies behind it, and one short record whose zeros look like padding.
[[nodiscard]] std::vector<truth> allowed_truths(const subject& s, const changed_bytes& changed);

/// What may differ for whoever accepts damage ("Damage"): what is lost is missing. Of keys whose head and newest record
/// are both changed an older value may be shown, and where both root pages are, the clock may be behind ("Not found").
[[nodiscard]] allowance allowed_to_accept(const subject& s, const changed_bytes& changed);

/// What may differ where a killed store is opened at once ("Opening at once", "A write that the device lost"): the
/// links of a key, nodes of the index and blocks of tags that are as they were earlier. Nothing may where that is not
/// the damage, nor where the store was closed.
[[nodiscard]] std::optional<allowance> allowed_at_once(const subject& s, const changed_bytes& changed);

/// Keys whose entries were among what a killed writer wrote last, all of which is changed from there on: what is
/// written next comes into their places ("Opening at once").
[[nodiscard]] std::set<std::string> lost_last(const subject& s, const changed_bytes& changed);

}  // namespace icecore::damaging
