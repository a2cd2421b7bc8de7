package magnetar.etf;

import java.util.Objects;

/** An external fun of Erlang, {@code fun module:function/arity}: a name, nothing that can be called here. */
public record Export(String module, String function, int arity) {

    public Export {
        Objects.requireNonNull(module, "module");
        Objects.requireNonNull(function, "function");
        Range.check("The arity of an export", arity, 255);
    }
}
