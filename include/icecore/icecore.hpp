// All of icecore's C++ interface.
#pragma once

#include "icecore/arrow.hpp"
#include "icecore/error.hpp"
#include "icecore/filter.hpp"
#include "icecore/filtered.hpp"
#include "icecore/history.hpp"
#include "icecore/options.hpp"
#include "icecore/pin.hpp"
#include "icecore/query.hpp"
#include "icecore/record_log.hpp"
#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"
#include "icecore/typed.hpp"
#include "icecore/unfinished.hpp"
#include "icecore/value.hpp"
#include "icecore/version.hpp"
#include "icecore/version_ranges.hpp"
