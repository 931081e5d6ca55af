#include "goldilocks_rows_code.h"

#include <stdexcept>
#include <string>

namespace dp {
namespace rows {

namespace {

enum Op : u32 { LOAD, CONST, SCALAR, BASE_SCALAR, ADD, SUB, MUL };

// Values folded by one step: enough that reducing their sum costs little beside it, few enough to wait in the cache.
constexpr size_t FOLD_GROUP = 32;

constexpr u32 NONE = ~0u;

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(std::string("row program: ") + what);
}

}  // namespace

// Goes through the text once. Steps name values first; slots are handed out when all are known.
class RowCode::Builder {
 public:
  Builder(const ProgramText& text, RowCode& out) : text_(text), out_(out), values_(text.instructions) {}

  void build() {
    check();
    classify();
    place_outputs();
    mark_used();
    for (u32 v = 0; v < values_.size(); ++v) emit(v);
    flush_fold();
    assign_slots();
  }

 private:
  struct Value {
    bool extension = false, uniform = false, used = false, loaded = false;
    u32 index = 0;                // of a uniform value
    u32 last_use = 0;             // step
    u32 slot = NONE;
    std::vector<u32> roles;       // places in `outputs`
  };

  const std::int32_t* line(u32 v) const { return text_.code + 4 * (size_t)v; }
  u32 op(u32 v) const { return (u32)line(v)[0]; }
  u32 operand(u32 v, int which) const { return (u32)line(v)[which]; }

  void check() const {
    require(text_.instructions < NONE / 4, "too many instructions");
    for (u32 v = 0; v < text_.instructions; ++v) {
      const std::int32_t* l = line(v);
      const auto below = [&](int i, size_t bound) { return l[i] >= 0 && (size_t)l[i] < bound; };
      switch (l[0]) {
        case LOAD:
          require(below(1, text_.widths.size()) && below(2, text_.widths[l[1]]) && below(3, 2), "no such column");
          break;
        case CONST:
          require(below(1, text_.constants.size()), "no such constant");
          break;
        case SCALAR:
        case BASE_SCALAR:
          require(below(1, text_.scalars), "no such scalar");
          break;
        case ADD:
        case SUB:
        case MUL:
          require(below(1, v) && below(2, v), "an operand is not an earlier value");
          break;
        default:
          require(false, "no such operation");
      }
    }
    for (u64 c : text_.constants) require(c < gl::P, "a constant is not canonical");
    for (u32 v : text_.outputs) require(v < text_.instructions, "an output is not a value");
    if (text_.folds)
      require(text_.outputs.size() <= text_.scalars && text_.fold <= text_.scalars - text_.outputs.size(),
              "fewer scalars than it folds with");
  }

  void classify() {
    for (u32 v = 0; v < values_.size(); ++v) {
      Value& value = values_[v];
      const u32 o = op(v);
      if (o >= ADD) {
        const Value &a = values_[operand(v, 1)], &b = values_[operand(v, 2)];
        value.extension = a.extension || b.extension;
        value.uniform = a.uniform && b.uniform;
        if (value.uniform) add_uniform(value, o, a.index, b.index);
      } else if (o != LOAD) {
        value.extension = o == SCALAR;
        value.uniform = true;
        add_uniform(value, o, operand(v, 1), 0);
      }
    }
  }

  void add_uniform(Value& value, u32 o, u32 a, u32 b) {
    value.index = (u32)out_.uniforms_.size();
    out_.uniforms_.push_back({o, a, b});
  }

  void place_outputs() {
    u32 column = 0;
    for (u32 i = 0; i < text_.outputs.size(); ++i) {
      Value& value = values_[text_.outputs[i]];
      const u32 width = value.extension ? 3 : 1;
      columns_.push_back(column);
      column += width;
      if (!value.uniform) {
        value.roles.push_back(i);
      } else if (text_.folds) {
        out_.folded_uniforms_.push_back({(u32)(text_.fold + i), value.index});
      } else {
        out_.fixed_.push_back({columns_[i], width});
        out_.fixed_uniforms_.push_back(value.index);
      }
    }
    out_.output_columns_ = text_.folds ? 3 : column;
  }

  void mark_used() {
    for (u32 v = (u32)values_.size(); v-- > 0;) {
      Value& value = values_[v];
      value.used = !value.uniform && (value.used || !value.roles.empty());
      if (value.used && op(v) >= ADD) values_[operand(v, 1)].used = values_[operand(v, 2)].used = true;
    }
  }

  void emit(u32 v) {
    const Value& value = values_[v];
    if (!value.used || value.uniform) return;
    if (op(v) != LOAD) {
      const u32 a = operand(v, 1), b = operand(v, 2);
      load(a);
      load(b);
      push({STEP_ARITHMETIC + 16 * (op(v) - ADD) + 4 * kind(a) + kind(b), v, a, b}, {a, b});
    } else if (!value.roles.empty()) {
      load(v);
    }
    for (u32 role : value.roles) output(v, role);
  }

  // Columns are read where they are first needed, so that they do not fill the cache before.
  void load(u32 v) {
    Value& value = values_[v];
    if (value.uniform || op(v) != LOAD || value.loaded) return;
    value.loaded = true;
    push({operand(v, 3) ? STEP_LOAD_NEXT : STEP_LOAD, v, operand(v, 1), operand(v, 2)}, {});
  }

  void output(u32 v, u32 role) {
    const u32 width = values_[v].extension ? 3 : 1;
    if (text_.folds) {
      for (u32 k = 0; k < width; ++k) {
        group_.push_back({v, k});
        out_.folded_weights_.push_back({(u32)(text_.fold + role), k});
      }
      if (group_.size() >= FOLD_GROUP) flush_fold();
    } else {
      for (u32 k = 0; k < width; ++k) {
        steps_.push_back({{STEP_STORE, columns_[role] + k, v, k}, {NONE, NONE}});
        values_[v].last_use = (u32)steps_.size() - 1;
      }
    }
  }

  void flush_fold() {
    if (group_.empty()) return;
    steps_.push_back({{STEP_FOLD, 0, (u32)folded_.size(), (u32)group_.size()}, {NONE, NONE}});
    for (const Coordinate& c : group_) {
      values_[c.value].last_use = (u32)steps_.size() - 1;
      folded_.push_back(c);
    }
    group_.clear();
  }

  u32 kind(u32 v) const {
    const Value& value = values_[v];
    return value.uniform ? (value.extension ? UNIFORM_EXT : UNIFORM_BASE) : (value.extension ? EXT : BASE);
  }

  struct Draft {
    Step step;
    u32 reads[2];
  };

  void push(const Step& step, std::initializer_list<u32> reads) {
    Draft draft{step, {NONE, NONE}};
    int i = 0;
    for (u32 v : reads)
      if (!values_[v].uniform) {
        draft.reads[i++] = v;
        values_[v].last_use = (u32)steps_.size();
      }
    steps_.push_back(draft);
  }

  // A slot is free again after its value's last use; a step may write where it read, since it goes row by row.
  void assign_slots() {
    std::vector<std::vector<u32>> dying(steps_.size());
    for (u32 v = 0; v < values_.size(); ++v)
      if (values_[v].used && !values_[v].uniform) dying[values_[v].last_use].push_back(v);
    for (size_t i = 0; i < steps_.size(); ++i) {
      Step step = steps_[i].step;
      const u32 target = step.target;
      if (step.kind == STEP_STORE) {
        step.a = values_[step.a].slot + step.b;
        step.b = 0;
      } else if (step.kind == STEP_FOLD) {
        for (u32 k = step.a; k < step.a + step.b; ++k)
          out_.folded_.push_back(values_[folded_[k].value].slot + folded_[k].coordinate);
      } else if (step.kind >= STEP_ARITHMETIC) {
        step.a = place(step.a);
        step.b = place(step.b);
      }
      for (u32 v : dying[i])
        if (values_[v].slot != NONE) free_[values_[v].extension].push_back(values_[v].slot);
      if (step.kind != STEP_STORE && step.kind != STEP_FOLD) step.target = allocate(values_[target]);
      out_.steps_.push_back(step);
    }
  }

  u32 place(u32 v) const { return values_[v].uniform ? values_[v].index : values_[v].slot; }

  u32 allocate(Value& value) {
    std::vector<u32>& free = free_[value.extension];
    if (!free.empty()) {
      value.slot = free.back();
      free.pop_back();
    } else {
      value.slot = (u32)out_.slots_;
      out_.slots_ += value.extension ? 3 : 1;
    }
    return value.slot;
  }

  struct Coordinate {
    u32 value, coordinate;
  };

  const ProgramText& text_;
  RowCode& out_;
  std::vector<Value> values_;
  std::vector<u32> columns_;         // first output column of each output
  std::vector<Draft> steps_;
  std::vector<Coordinate> group_;    // waiting to be folded
  std::vector<Coordinate> folded_;
  std::vector<u32> free_[2];         // slots of base and of extension values
};

RowCode::RowCode(const ProgramText& text)
    : widths_(text.widths), constants_(text.constants), scalars_(text.scalars), folds_(text.folds) {
  Builder(text, *this).build();
}

RowCode::Bound RowCode::bind(const Ext* scalars) const {
  Bound bound;
  bound.uniforms.reserve(uniforms_.size());
  for (const Uniform& u : uniforms_) {
    const auto value = [&]() -> Ext {
      switch (u.op) {
        case CONST:
          return gl::embed(constants_[u.a]);
        case SCALAR:
          return scalars[u.a];
        case BASE_SCALAR:
          return gl::embed(scalars[u.a].c[0]);
        case ADD:
          return gl::add(bound.uniforms[u.a], bound.uniforms[u.b]);
        case SUB:
          return gl::sub(bound.uniforms[u.a], bound.uniforms[u.b]);
        default:
          return gl::mul(bound.uniforms[u.a], bound.uniforms[u.b]);
      }
    };
    bound.uniforms.push_back(value());
  }
  const Ext powers[3] = {{{1, 0, 0}}, {{0, 1, 0}}, {{0, 0, 1}}};
  for (const Folded& f : folded_weights_) {
    const Ext weight = gl::mul(scalars[f.scalar], powers[f.power]);
    bound.fold_weights.insert(bound.fold_weights.end(), weight.c, weight.c + 3);
  }
  bound.fold_start = {{0, 0, 0}};
  for (const FoldedUniform& f : folded_uniforms_)
    bound.fold_start = gl::add(bound.fold_start, gl::mul(scalars[f.scalar], bound.uniforms[f.uniform]));
  for (u32 index : fixed_uniforms_) bound.fixed.push_back(bound.uniforms[index]);
  return bound;
}

}  // namespace rows
}  // namespace dp
