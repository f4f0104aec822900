#include "ways.hpp"

#include <functional>

#include "examination.hpp"

namespace icecore::damaging {
namespace {

using crash::machine;

class user {
 public:
  user(const subject& s, const corruption& c)
      : subject_(s),
        damaged_(c.files.view()),
        whole_(s.files.view()),
        truths_(allowed_truths(s, {whole_, damaged_})),
        accepted_(allowed_to_accept(s, {whole_, damaged_})),
        at_once_(allowed_at_once(s, {whole_, damaged_})),
        path_(machine::path(machine::checked)) {}

  outcome run(way how) {
    read();
    if (!result_.wrong.empty()) return result_;
    subject_.put(damaged_);
    switch (how) {
      case way::accepting:
        accept();
        break;
      case way::repairing:
        repair();
        break;
      case way::verifying:
        verify();
        break;
      case way::writing:
        write();
        break;
    }
    return result_;
  }

 private:
  [[nodiscard]] options reading() const {
    options o = subject_.opening;
    o.access = access::read_only;
    o.creation = creation::open_existing;
    return o;
  }

  /// Runs something; an error must be one that tells of damage.
  void attempt(const char* what, const std::function<void()>& something) {
    try {
      something();
    } catch (const error& failure) {
      reported(failure.what());
      if (!reports_damage(failure)) wrong(what, std::string("an error that tells of no damage: ") + failure.what());
    } catch (const std::exception& failure) {
      wrong(what, std::string("an exception: ") + failure.what());
    }
  }

  void wrong(const char* what, const std::string& why) {
    if (result_.wrong.empty()) result_.wrong = std::string(what) + ": " + why;
  }
  void reported(const std::string& first) {
    result_.reported = true;
    if (first_error_.empty()) first_error_ = first;
  }

  /// One of the truths must explain all answers.
  void compare(const char* what, const std::function<answers(const truth&)>& ask) {
    if (const std::string w = compared(ask); !w.empty()) wrong(what, w);
  }
  /// The same of a store that may have been opened at once, where some damage cannot be told.
  void compare_at_once(const char* what, const store& opened, const std::optional<allowance>& allowed) {
    std::string w = compared([&](const truth& t) { return examine(opened, t); });
    if (!w.empty() && allowed && opened.stats().recovered_instantly) {
      hidden_ = true;
      w = compared([&](const truth& t) { return examine(opened, t, *allowed); });
    }
    if (!w.empty()) wrong(what, w);
  }
  [[nodiscard]] std::string compared(const std::function<answers(const truth&)>& ask) {
    answers nearest;
    for (const truth& t : truths_) {
      answers a = ask(t);
      if (a.errors > 0) reported(a.first_error);
      if (a.wrong.empty()) return {};
      if (nearest.wrong.empty() || a.right > nearest.right) nearest = std::move(a);
    }
    return nearest.wrong;
  }

  void read() {
    subject_.put(damaged_);
    attempt("reading", [&] {
      const store opened(path_, reading());
      compare_at_once("reading", opened, at_once_);
    });
  }

  void accept() {
    attempt("accepting damage", [&] {
      options o = reading();
      o.accept_damage = true;
      const store opened(path_, o);
      compare("accepting damage", [&](const truth& t) { return examine(opened, t, accepted_); });
    });
  }

  void repair() {
    attempt("repairing", [&] {
      repair_options o;
      o.from = path_;
      o.to = machine::path(machine::recorded);
      o.moved = subject_.opening.placements;
      const repair_report report = icecore::repair(o);
      options repaired;
      repaired.access = access::read_only;
      repaired.huge_pages = false;
      repaired.recovery_threads = 1;
      const store opened(o.to, repaired);
      compare("repaired", [&](const truth& t) {
        answers a = report.complete() ? examine(opened, t) : examine(opened, t, accepted_);
        if (a.wrong.empty() && a.errors > 0) a.wrong = "the repaired store fails: " + a.first_error;
        return a;
      });
    });
  }

  void verify() {
    const bool met = result_.reported;
    bool found = true;  // an error of its own, too
    attempt("verifying", [&] { found = !verify_file(path_).ok(); });
    if (met && !found) wrong("verifying", "nothing is found, but reading fails: " + first_error_);
    if (hidden_ && !found) wrong("verifying", "nothing is found, but what is shown is of an earlier time");
  }

  void write() {
    attempt("writing", [&] {
      {
        options o = subject_.opening;
        o.creation = creation::open_existing;
        store opened(path_, o);
        for (unsigned i = 0; i < 12; ++i) {
          const std::string key = (i % 3 == 2 ? "zz/" : "key/") + std::to_string(i * 2);
          done(operation::kind::write, {{key, "again"}}, [&] { return opened.insert(key, "again"); });
        }
        done(operation::kind::tag, {},
             [&] { return opened.tag({.name = "again", .note = "note", .time_ns = 1 << 20}); });
        opened.close();
      }
      std::optional<allowance> allowed = at_once_;
      const std::set<std::string> lost = lost_last(subject_, {whole_, damaged_});
      if (!lost.empty()) {
        if (!allowed) allowed.emplace();
        allowed->unlisted = lost;
      }
      {
        const store opened(path_, reading());
        compare_at_once("after writing", opened, allowed);
      }
      if (hidden_ && !lost.empty() && verify_file(path_).ok())
        wrong("after writing", "verifying finds nothing, but what is shown is of another key");
    });
  }

  /// One more operation in all truths, unless it fails.
  void done(operation::kind what, std::vector<operation::change_of_key> changes, const std::function<version()>& call) {
    operation o{what, 0, 0, std::move(changes)};
    attempt("writing", [&] {
      o.belongs_to = call();
      if (what == operation::kind::tag) o.name = "again";
      for (truth& t : truths_) t.add(o);
    });
  }

  const subject& subject_;
  crash::left_files damaged_;
  crash::left_files whole_;
  std::vector<truth> truths_;
  allowance accepted_;
  std::optional<allowance> at_once_;
  bool hidden_ = false;  // what was shown is wrong, and is allowed to be
  std::string path_;
  outcome result_;
  std::string first_error_;
};

}  // namespace

outcome use(const subject& s, const corruption& c, way how) { return user(s, c).run(how); }

}  // namespace icecore::damaging
