// Programs include it with this folder's name too, as Lunchbox does: <FxLogger/Trace.hpp>.
#pragma once

#include <skv/fxlogger/Trace.hpp>
