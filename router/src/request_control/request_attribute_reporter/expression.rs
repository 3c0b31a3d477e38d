//! CEL expressions of one variable, checked when they are compiled.

use std::fmt;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use cel::{Context, Env, IdedExpr, Program, Value};

/// The only variable.
const VARIABLE: &str = "usage";

/// Functions of CEL's standard library; operators are named by their symbols.
const FUNCTIONS: [&str; 25] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Names of types, which stand for themselves.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "uint"];

/// A compiled expression.
pub(super) struct Expression(Program);

impl Expression {
    /// Compiles an expression, and refuses one that names what is not there.
    pub(super) fn compile(env: &Env, text: &str) -> Result<Self, String> {
        let program = env.compile(text).map_err(|errors| errors.to_string())?;
        Scope { locals: Vec::new() }.check(program.expression())?;
        Ok(Expression(program))
    }

    /// Returns the value, `None` where there is none: a field that is missing, operands that do not go together.
    pub(super) fn evaluate(&self, context: &Context<'_, '_>) -> Option<Value> {
        self.0.execute(context).ok()
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(self.0.expression()).finish()
    }
}

/// The names that hold at a place of an expression.
struct Scope<'a> {
    /// Variables of the comprehensions around it.
    locals: Vec<&'a str>,
}

impl<'a> Scope<'a> {
    fn check(&mut self, node: &'a IdedExpr) -> Result<(), String> {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.check(&select.operand),
            Expr::List(list) => self.check_all(&list.elements),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(entry)),
            Expr::Struct(of) => Err(format!("undeclared reference to the type '{}'", of.type_name)),
            Expr::Call(call) => {
                function(&call.func_name)?;
                call.target.as_deref().map_or(Ok(()), |target| self.check(target))?;
                self.check_all(&call.args)
            }
            Expr::Comprehension(of) => {
                self.check(&of.iter_range)?;
                self.check(&of.accu_init)?;
                let outside = self.locals.len();
                self.locals.push(&of.accu_var);
                self.check(&of.result)?;
                self.locals.push(&of.iter_var);
                self.locals.extend(of.iter_var2.as_deref());
                self.check(&of.loop_cond)?;
                self.check(&of.loop_step)?;
                self.locals.truncate(outside);
                Ok(())
            }
        }
    }

    fn check_all(&mut self, nodes: &'a [IdedExpr]) -> Result<(), String> {
        nodes.iter().try_for_each(|node| self.check(node))
    }

    fn entry(&mut self, entry: &'a IdedEntryExpr) -> Result<(), String> {
        match &entry.expr {
            EntryExpr::StructField(field) => self.check(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.check(&entry.key)?;
                self.check(&entry.value)
            }
        }
    }

    fn variable(&self, name: &str) -> Result<(), String> {
        if name == VARIABLE || TYPES.contains(&name) || self.locals.contains(&name) {
            return Ok(());
        }
        Err(format!("undeclared reference to '{name}'; accepted: '{VARIABLE}'"))
    }
}

/// Accepts operators and the functions of the standard library.
fn function(name: &str) -> Result<(), String> {
    let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    Err(format!("undeclared reference to the function '{name}'"))
}
