// SQLite as an oracle: a table of rows, and expressions in SQL over it.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference.hpp"

namespace icecore::testing {

class sqlite {
 public:
  sqlite() {
    sqlite3* made = nullptr;
    require(sqlite3_open(":memory:", &made));
    database_.reset(made);
    run("pragma case_sensitive_like = on");
    run("create table rows(n integer primary key, key blob, a integer, c integer, d real, e real, s blob, t blob)");
  }

  void set_rows(const std::vector<reference_row>& rows) {
    run("delete from rows");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const statement insert = prepared("insert into rows values(?, ?, ?, ?, ?, ?, ?, ?)");
      sqlite3_bind_int64(insert.get(), 1, static_cast<std::int64_t>(i));
      int place = 2;
      for (const char* const name : {"key", "a", "c", "d", "e", "s", "t"}) {
        bind(insert.get(), place++, testing::evaluate({.op = name}, rows[i]));
      }
      if (sqlite3_step(insert.get()) != SQLITE_DONE) fail();
    }
  }

  [[nodiscard]] std::vector<tagged> evaluate(const std::string& sql, tagged::tag type) {
    std::vector<tagged> found;
    const statement select = prepared("select " + sql + " from rows order by n");
    while (sqlite3_step(select.get()) == SQLITE_ROW) found.push_back(value_of(select.get(), type));
    return found;
  }

 private:
  struct closes {
    void operator()(sqlite3* one) const { sqlite3_close(one); }
  };
  struct finalizes {
    void operator()(sqlite3_stmt* one) const { sqlite3_finalize(one); }
  };
  using statement = std::unique_ptr<sqlite3_stmt, finalizes>;

  [[noreturn]] void fail() const { throw std::runtime_error(sqlite3_errmsg(database_.get())); }
  void require(int code) const {
    if (code != SQLITE_OK) fail();
  }
  void run(const char* sql) { require(sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr)); }
  [[nodiscard]] statement prepared(const std::string& sql) {
    sqlite3_stmt* made = nullptr;
    require(sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &made, nullptr));
    return statement(made);
  }

  static void bind(sqlite3_stmt* to, int place, const tagged& one) {
    switch (one.is) {
      case tagged::tag::integer:
        sqlite3_bind_int64(to, place, static_cast<std::int64_t>(one.integer));
        return;
      case tagged::tag::real:
        sqlite3_bind_double(to, place, one.real);
        return;
      case tagged::tag::bytes:
        sqlite3_bind_blob(to, place, one.bytes.data(), static_cast<int>(one.bytes.size()), SQLITE_TRANSIENT);
        return;
      default:
        sqlite3_bind_null(to, place);
    }
  }

  static tagged value_of(sqlite3_stmt* from, tagged::tag type) {
    if (sqlite3_column_type(from, 0) == SQLITE_NULL) return {};
    switch (type) {
      case tagged::tag::boolean:
        return tagged::of(sqlite3_column_int64(from, 0) != 0);
      case tagged::tag::integer:
        return tagged::of(static_cast<wide>(sqlite3_column_int64(from, 0)));
      case tagged::tag::real:
        return tagged::of(sqlite3_column_double(from, 0));
      default: {
        const void* const bytes = sqlite3_column_blob(from, 0);
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(from, 0));
        return tagged::of(bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size));
      }
    }
  }

  std::unique_ptr<sqlite3, closes> database_;
};

}  // namespace icecore::testing
