// Programs include it with this folder's name too, as Lunchbox does: <FxLogger/FxLogger.hpp>.
#pragma once

#include <skv/fxlogger/FxLogger.hpp>
