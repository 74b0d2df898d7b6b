// SPDX-License-Identifier: Apache-2.0
// SymbolTable: integer expressions in a canonical form. Sums and products are polynomials over
// atoms (inputs, run-time symbols, quotients, minima …), so that equal expressions become the same
// Dim. One file: every operation makes the form that all others count on.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "ir/types.h"

namespace camshaft::ir {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxTerms = 48;  // larger sums stay as they are written
constexpr size_t kMaxFactors = 16;

// Arithmetic that saturates: a hostile file may ask for anything, and absurd extents are refused
// later.
int64_t add_numbers(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (a > 0 ? kHighest : kLowest) : sum;
}
int64_t mul_numbers(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ((a > 0) == (b > 0) ? kHighest : kLowest)
                                                : product;
}
int64_t negate(int64_t a) {
  return a == kLowest ? kHighest : -a;
}
int64_t floor_div_numbers(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return negate(a);
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}
int64_t ceil_div_numbers(int64_t a, int64_t b) {
  return negate(floor_div_numbers(negate(a), b));
}
int64_t mod_numbers(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t apply(SymbolOp op, int64_t a, int64_t b) {
  switch (op) {
    case SymbolOp::kAdd:
      return add_numbers(a, b);
    case SymbolOp::kSub:
      return add_numbers(a, negate(b));
    case SymbolOp::kMul:
      return mul_numbers(a, b);
    case SymbolOp::kFloorDiv:
      return floor_div_numbers(a, b);
    case SymbolOp::kCeilDiv:
      return ceil_div_numbers(a, b);
    case SymbolOp::kMod:
      return mod_numbers(a, b);
    case SymbolOp::kMin:
      return std::min(a, b);
    case SymbolOp::kMax:
      return std::max(a, b);
    case SymbolOp::kBroadcast:
      return a == 1 ? b : a;
    default:
      return 0;
  }
}

bool id_less(Dim a, Dim b) {
  return a.symbol_id() < b.symbol_id();
}

// Whether `whole` is `op` of `part` and something else.
bool combines(const SymbolTable& table, SymbolOp op, Dim whole, Dim part) {
  if (whole.is_known()) return false;
  const Symbol& symbol = table.symbol(whole.symbol_id());
  return symbol.op == op && (symbol.a == part || symbol.b == part);
}

}  // namespace

// A sum of terms, sorted, without equal atoms and zero coefficients.
struct Polynomial {
  struct Term {
    std::vector<Dim> atoms;  // sorted by symbol id
    int64_t coefficient = 0;

    // The order of terms in a sum: high degrees first, the constant last. It is a monomial order,
    // so long division works with it.
    static bool less(const Term& a, const Term& b) {
      if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
      return std::lexicographical_compare(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                                          b.atoms.end(), id_less);
    }
  };
  std::vector<Term> terms;

  static Polynomial of(const SymbolTable& table, Dim dim);
  Dim to_dim(SymbolTable& table) const;

  bool is_number() const { return terms.empty() || (terms.size() == 1 && terms[0].atoms.empty()); }
  int64_t number() const { return terms.empty() ? 0 : terms[0].coefficient; }
  bool too_big() const {
    return terms.size() > kMaxTerms ||
           std::any_of(terms.begin(), terms.end(),
                       [](const Term& term) { return term.atoms.size() > kMaxFactors; });
  }
  void append(Term term, int64_t factor) {
    term.coefficient = mul_numbers(term.coefficient, factor);
    terms.push_back(std::move(term));
  }
  void normalize() {
    std::stable_sort(terms.begin(), terms.end(), Term::less);
    size_t used = 0;
    for (size_t k = 0; k < terms.size(); ++k) {
      if (used > 0 && terms[used - 1].atoms == terms[k].atoms)
        terms[used - 1].coefficient =
            add_numbers(terms[used - 1].coefficient, terms[k].coefficient);
      else if (used == k)
        ++used;
      else
        terms[used++] = std::move(terms[k]);
    }
    terms.resize(used);
    std::erase_if(terms, [](const Term& term) { return term.coefficient == 0; });
  }
};

namespace {

using Term = Polynomial::Term;

Term multiply(const Term& a, const Term& b) {
  Term product;
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
             std::back_inserter(product.atoms), id_less);
  product.coefficient = mul_numbers(a.coefficient, b.coefficient);
  return product;
}

// a / b if b divides it.
std::optional<Term> divide(const Term& a, const Term& b) {
  if (b.coefficient == 0 || mod_numbers(a.coefficient, b.coefficient) != 0) return std::nullopt;
  Term quotient;
  quotient.coefficient = floor_div_numbers(a.coefficient, b.coefficient);
  if (!std::includes(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), id_less))
    return std::nullopt;
  std::set_difference(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                      std::back_inserter(quotient.atoms), id_less);
  return quotient;
}

Polynomial sum(const Polynomial& a, const Polynomial& b, int64_t factor) {
  Polynomial result = a;
  for (const Term& term : b.terms) result.append(term, factor);
  result.normalize();
  return result;
}

Polynomial product(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (const Term& left : a.terms)
    for (const Term& right : b.terms) result.terms.push_back(multiply(left, right));
  result.normalize();
  return result;
}

Polynomial single(Term term) {
  Polynomial result;
  if (term.coefficient != 0) result.terms.push_back(std::move(term));
  return result;
}

// Long division; empty unless it comes out even.
std::optional<Polynomial> divide_exactly(Polynomial rest, const Polynomial& divisor) {
  Polynomial quotient;
  for (size_t step = 0; step <= kMaxTerms && !rest.terms.empty(); ++step) {
    const std::optional<Term> term = divide(rest.terms[0], divisor.terms[0]);
    if (!term) return std::nullopt;
    quotient.terms.push_back(*term);
    rest = sum(rest, product(single(*term), divisor), -1);
    if (rest.too_big()) return std::nullopt;
  }
  if (!rest.terms.empty()) return std::nullopt;
  quotient.normalize();
  return quotient;
}

// Divides `numerator` and the one term `divisor` by what all terms have in common.
void cancel_common_factors(Polynomial& numerator, Term& divisor) {
  Term common = divisor;
  for (const Term& term : numerator.terms) {
    std::vector<Dim> atoms;
    std::set_intersection(common.atoms.begin(), common.atoms.end(), term.atoms.begin(),
                          term.atoms.end(), std::back_inserter(atoms), id_less);
    common.atoms = std::move(atoms);
    common.coefficient = std::gcd(common.coefficient, term.coefficient);
  }
  for (Term& term : numerator.terms) term = *divide(term, common);
  divisor = *divide(divisor, common);
  numerator.normalize();
}

// Moves the terms that `divisor` divides, and whole multiples in the constant, from `rest` to the
// quotient.
Polynomial split_multiples(Polynomial& rest, const Term& divisor) {
  Polynomial quotient, remaining;
  for (const Term& term : rest.terms) {
    if (const std::optional<Term> part = divide(term, divisor)) {
      quotient.terms.push_back(*part);
    } else if (term.atoms.empty() && divisor.atoms.empty()) {
      const int64_t whole = floor_div_numbers(term.coefficient, divisor.coefficient);
      if (whole != 0) quotient.terms.push_back({{}, whole});
      remaining.terms.push_back({{}, mod_numbers(term.coefficient, divisor.coefficient)});
    } else {
      remaining.terms.push_back(term);
    }
  }
  rest = remaining;
  quotient.normalize();
  rest.normalize();
  return quotient;
}

}  // namespace

Polynomial Polynomial::of(const SymbolTable& table, Dim dim) {
  Polynomial result;
  if (table.is_number(dim)) return single({{}, table.number(dim)});
  const Symbol& symbol = table.symbols_[dim.symbol_id()];
  const bool opaque = table.traits_[dim.symbol_id()].opaque;
  if (!opaque && (symbol.op == SymbolOp::kAdd || symbol.op == SymbolOp::kSub))
    return sum(of(table, symbol.a), of(table, symbol.b), symbol.op == SymbolOp::kAdd ? 1 : -1);
  if (!opaque && symbol.op == SymbolOp::kMul)
    return product(of(table, symbol.a), of(table, symbol.b));
  return single({{dim}, 1});
}

Dim Polynomial::to_dim(SymbolTable& table) const {
  if (is_number()) return table.constant(number());
  std::vector<Term> ordered = terms;
  const auto positive = std::find_if(ordered.begin(), ordered.end(),
                                     [](const Term& term) { return term.coefficient > 0; });
  if (positive != ordered.end()) std::rotate(ordered.begin(), positive, positive + 1);
  Dim result;
  for (size_t k = 0; k < ordered.size(); ++k) {
    const Term& term = ordered[k];
    const bool subtract = k > 0 && term.coefficient < 0;
    const int64_t coefficient = subtract ? negate(term.coefficient) : term.coefficient;
    Dim value = table.constant(coefficient);
    if (!term.atoms.empty()) {
      Dim chain = term.atoms[0];
      for (size_t f = 1; f < term.atoms.size(); ++f)
        chain = table.intern(SymbolOp::kMul, chain, term.atoms[f], 0, "");
      value = coefficient == 1 ? chain : table.intern(SymbolOp::kMul, chain, value, 0, "");
    }
    if (k == 0)
      result = value;
    else
      result = table.intern(subtract ? SymbolOp::kSub : SymbolOp::kAdd, result, value, 0, "");
  }
  return result;
}

// --- symbols

SymbolTable::Traits SymbolTable::traits_of(const Symbol& symbol) const {
  Traits traits{{kLowest, kHighest}, symbol.op == SymbolOp::kRuntime, false};
  Bounds& out = traits.bounds;
  if (symbol.op == SymbolOp::kInput || symbol.op == SymbolOp::kRuntime) {
    out = {0, kMaxExtent};
    return traits;
  }
  if (symbol.op == SymbolOp::kConstant) {
    out = {symbol.constant, symbol.constant};
    return traits;
  }
  traits.runtime = depends_on_runtime(symbol.a) || depends_on_runtime(symbol.b);
  const Bounds a = bounds(symbol.a), b = bounds(symbol.b);
  const bool signless = a.low >= 0 && b.low >= 0;
  switch (symbol.op) {
    case SymbolOp::kAdd:
      if (a.low != kLowest && b.low != kLowest) out.low = add_numbers(a.low, b.low);
      if (a.high != kHighest && b.high != kHighest) out.high = add_numbers(a.high, b.high);
      break;
    case SymbolOp::kSub:
      if (a.low != kLowest && b.high != kHighest) out.low = add_numbers(a.low, negate(b.high));
      if (a.high != kHighest && b.low != kLowest) out.high = add_numbers(a.high, negate(b.low));
      break;
    case SymbolOp::kMul:
      if (signless) {
        out = {mul_numbers(a.low, b.low), mul_numbers(a.high, b.high)};
      } else if (b.low == b.high && a.low >= 0) {  // by a negative number
        out = {a.high == kHighest ? kLowest : mul_numbers(a.high, b.low),
               mul_numbers(a.low, b.low)};
      }
      break;
    case SymbolOp::kFloorDiv:
    case SymbolOp::kCeilDiv:
      if (signless) {
        out.low = b.high == kHighest ? 0 : apply(symbol.op, a.low, b.high);
        if (a.high != kHighest) out.high = b.low > 0 ? apply(symbol.op, a.high, b.low) : a.high;
      } else if (b.low == b.high && b.low > 0) {
        if (a.low != kLowest) out.low = apply(symbol.op, a.low, b.low);
        if (a.high != kHighest) out.high = apply(symbol.op, a.high, b.low);
      }
      break;
    case SymbolOp::kMod:
      if (b.low > 0) out = {0, b.high == kHighest ? kHighest : b.high - 1};
      break;
    case SymbolOp::kBroadcast:
      out = {std::min(a.low, b.low), std::max(a.high, b.high)};
      break;
    default:  // kMin, kMax
      out = {apply(symbol.op, a.low, b.low), apply(symbol.op, a.high, b.high)};
  }
  return traits;
}

Dim SymbolTable::append(Symbol symbol) {
  Traits traits = traits_of(symbol);
  const bool compound =
      symbol.op == SymbolOp::kAdd || symbol.op == SymbolOp::kSub || symbol.op == SymbolOp::kMul;
  symbols_.push_back(std::move(symbol));
  traits_.push_back(traits);
  const Dim dim = Dim::symbol(size() - 1);
  if (compound) traits_.back().opaque = Polynomial::of(*this, dim).too_big();
  return dim;
}

Dim SymbolTable::intern(SymbolOp op, Dim a, Dim b, int64_t constant, const std::string& name) {
  // A late step infers its shapes in each run with a table of a few symbols.
  constexpr int kMostCompared = 16;
  if (size() <= kMostCompared) {
    for (int k = 0; k < size(); ++k) {
      const Symbol& s = symbols_[k];
      if (s.op == op && s.a == a && s.b == b && s.constant == constant && s.name == name)
        return Dim::symbol(k);
    }
    return append(Symbol{op, a, b, constant, name});
  }
  for (; indexed_ < size(); ++indexed_) {
    const Symbol& s = symbols_[indexed_];
    index_.try_emplace(std::make_tuple(s.op, s.a, s.b, s.constant, s.name), indexed_);
  }
  const auto found = index_.find(std::make_tuple(op, a, b, constant, name));
  if (found != index_.end()) return Dim::symbol(found->second);
  return append(Symbol{op, a, b, constant, name});
}

Dim SymbolTable::input(const std::string& name) {
  return intern(SymbolOp::kInput, 0, 0, 0, name);
}

Dim SymbolTable::runtime(const std::string& name) {
  return append(Symbol{SymbolOp::kRuntime, 0, 0, 0, name});
}

Dim SymbolTable::constant(int64_t value) {
  return value >= 0 ? Dim(value) : intern(SymbolOp::kConstant, 0, 0, value, "");
}

bool SymbolTable::is_number(Dim dim) const {
  return dim.is_known() || symbols_[dim.symbol_id()].op == SymbolOp::kConstant;
}

int64_t SymbolTable::number(Dim dim) const {
  return dim.is_known() ? dim.extent() : symbols_[dim.symbol_id()].constant;
}

bool SymbolTable::depends_on_runtime(Dim dim) const {
  return !dim.is_known() && traits_[dim.symbol_id()].runtime;
}

SymbolTable::Bounds SymbolTable::bounds(Dim dim) const {
  return dim.is_known() ? Bounds{dim.extent(), dim.extent()} : traits_[dim.symbol_id()].bounds;
}

// --- arithmetic

Dim SymbolTable::add(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(add_numbers(number(a), number(b)));
  const Polynomial result = sum(Polynomial::of(*this, a), Polynomial::of(*this, b), 1);
  return result.too_big() ? intern(SymbolOp::kAdd, a, b, 0, "") : result.to_dim(*this);
}

Dim SymbolTable::sub(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(add_numbers(number(a), negate(number(b))));
  const Polynomial result = sum(Polynomial::of(*this, a), Polynomial::of(*this, b), -1);
  return result.too_big() ? intern(SymbolOp::kSub, a, b, 0, "") : result.to_dim(*this);
}

Dim SymbolTable::mul(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(mul_numbers(number(a), number(b)));
  const Polynomial left = Polynomial::of(*this, a), right = Polynomial::of(*this, b);
  if (left.terms.size() * right.terms.size() > kMaxTerms)
    return intern(SymbolOp::kMul, std::min(a, b), std::max(a, b), 0, "");
  const Polynomial result = product(left, right);
  return result.too_big() ? intern(SymbolOp::kMul, std::min(a, b), std::max(a, b), 0, "")
                          : result.to_dim(*this);
}

Dim SymbolTable::floor_div(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(floor_div_numbers(number(a), number(b)));
  if (b == Dim(1)) return a;
  Polynomial numerator = Polynomial::of(*this, a);
  const Polynomial divisor = Polynomial::of(*this, b);
  if (divisor.terms.empty()) return 0;
  if (const std::optional<Polynomial> exact = divide_exactly(numerator, divisor))
    return exact->to_dim(*this);
  if (divisor.terms.size() > 1 || divisor.terms[0].coefficient < 0)
    return intern(SymbolOp::kFloorDiv, a, b, 0, "");

  Term unit = divisor.terms[0];
  cancel_common_factors(numerator, unit);
  const Polynomial whole = split_multiples(numerator, unit);
  if (!whole.terms.empty()) {
    const Dim rest = numerator.to_dim(*this), denominator = single(unit).to_dim(*this);
    return add(whole.to_dim(*this), floor_div(rest, denominator));
  }
  // floor((floor(x/c) + rest) / n) = floor((x + c*rest) / (c*n)) for numbers c, n > 0.
  for (const Term& term : numerator.terms) {
    if (!unit.atoms.empty() || term.coefficient != 1 || term.atoms.size() != 1) continue;
    const Symbol inner = symbols_[term.atoms[0].symbol_id()];
    if (inner.op != SymbolOp::kFloorDiv || !inner.b.is_known() || inner.b.extent() == 0) continue;
    const Dim rest = mul(sum(numerator, single(term), -1).to_dim(*this), inner.b);
    return floor_div(add(inner.a, rest), constant(mul_numbers(inner.b.extent(), unit.coefficient)));
  }
  return intern(SymbolOp::kFloorDiv, numerator.to_dim(*this), single(unit).to_dim(*this), 0, "");
}

Dim SymbolTable::ceil_div(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(ceil_div_numbers(number(a), number(b)));
  if (bounds(b).low >= 0) return floor_div(add(a, sub(b, 1)), b);
  return sub(0, floor_div(sub(0, a), b));
}

Dim SymbolTable::mod(Dim a, Dim b) {
  if (is_number(a) && is_number(b)) return constant(mod_numbers(number(a), number(b)));
  const Dim rest = sub(a, mul(b, floor_div(a, b)));
  if (is_number(rest)) return rest;
  if (b.is_known()) {
    Polynomial numerator = Polynomial::of(*this, a);
    split_multiples(numerator, Term{{}, b.extent()});
    a = numerator.to_dim(*this);
  }
  return intern(SymbolOp::kMod, a, b, 0, "");
}

Dim SymbolTable::min(Dim a, Dim b) {
  const Bounds difference = bounds(sub(a, b));
  if (difference.low >= 0) return b;
  if (difference.high <= 0) return a;
  for (int swap = 0; swap < 2; ++swap, std::swap(a, b)) {
    if (combines(*this, SymbolOp::kMin, a, b)) return a;
    if (combines(*this, SymbolOp::kMax, a, b)) return b;
  }
  return intern(SymbolOp::kMin, std::min(a, b), std::max(a, b), 0, "");
}

Dim SymbolTable::max(Dim a, Dim b) {
  const Bounds difference = bounds(sub(a, b));
  if (difference.low >= 0) return a;
  if (difference.high <= 0) return b;
  for (int swap = 0; swap < 2; ++swap, std::swap(a, b)) {
    if (combines(*this, SymbolOp::kMax, a, b)) return a;
    if (combines(*this, SymbolOp::kMin, a, b)) return b;
  }
  return intern(SymbolOp::kMax, std::min(a, b), std::max(a, b), 0, "");
}

Dim SymbolTable::broadcast(Dim a, Dim b) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  // Neither is 0: then it is the larger one.
  if (bounds(a).low >= 1 && bounds(b).low >= 1) return max(a, b);
  for (int swap = 0; swap < 2; ++swap, std::swap(a, b))
    if (combines(*this, SymbolOp::kBroadcast, a, b)) return a;
  return intern(SymbolOp::kBroadcast, std::min(a, b), std::max(a, b), 0, "");
}

// --- evaluation

int64_t SymbolTable::evaluate(Dim dim, std::span<const int64_t> bindings) const {
  if (is_number(dim)) return number(dim);
  const int last = dim.symbol_id();
  const SymbolOp op = symbols_[last].op;
  if (op == SymbolOp::kInput || op == SymbolOp::kRuntime) return bindings[last];
  std::vector<int64_t> values(last + 1);
  const auto value = [&](Dim operand) {
    return operand.is_known() ? operand.extent() : values[operand.symbol_id()];
  };
  for (int k = 0; k <= last; ++k) {
    const Symbol& symbol = symbols_[k];
    if (symbol.op == SymbolOp::kInput || symbol.op == SymbolOp::kRuntime)
      values[k] = bindings[k];
    else if (symbol.op == SymbolOp::kConstant)
      values[k] = symbol.constant;
    else
      values[k] = apply(symbol.op, value(symbol.a), value(symbol.b));
  }
  return values[last];
}

void SymbolTable::evaluate_all(std::vector<int64_t>& bindings, std::vector<bool>& bound) const {
  bindings.resize(symbols_.size());
  bound.resize(symbols_.size());
  const auto is_bound = [&](Dim dim) { return dim.is_known() || bound[dim.symbol_id()]; };
  const auto value = [&](Dim dim) {
    return dim.is_known() ? dim.extent() : bindings[dim.symbol_id()];
  };
  for (size_t k = 0; k < symbols_.size(); ++k) {
    const Symbol& symbol = symbols_[k];
    if (bound[k] || symbol.op == SymbolOp::kInput || symbol.op == SymbolOp::kRuntime) continue;
    if (symbol.op == SymbolOp::kConstant) {
      bindings[k] = symbol.constant;
      bound[k] = true;
    } else if (is_bound(symbol.a) && is_bound(symbol.b)) {
      bindings[k] = apply(symbol.op, value(symbol.a), value(symbol.b));
      bound[k] = true;
    }
  }
}

std::string SymbolTable::to_string(Dim dim) const {
  if (is_number(dim)) return std::to_string(number(dim));
  const Symbol& symbol = symbols_[dim.symbol_id()];
  const std::string a = to_string(symbol.a), b = to_string(symbol.b);
  switch (symbol.op) {
    case SymbolOp::kAdd:
      return fmt::format("({} + {})", a, b);
    case SymbolOp::kSub:
      return fmt::format("({} - {})", a, b);
    case SymbolOp::kMul:
      return fmt::format("{}*{}", a, b);
    case SymbolOp::kFloorDiv:
      return fmt::format("({}/{})", a, b);
    case SymbolOp::kCeilDiv:
      return fmt::format("ceil_div({}, {})", a, b);
    case SymbolOp::kMod:
      return fmt::format("({}%{})", a, b);
    case SymbolOp::kMin:
      return fmt::format("min({}, {})", a, b);
    case SymbolOp::kMax:
      return fmt::format("max({}, {})", a, b);
    case SymbolOp::kBroadcast:
      return fmt::format("broadcast({}, {})", a, b);
    default:
      return symbol.name;
  }
}

}  // namespace camshaft::ir
