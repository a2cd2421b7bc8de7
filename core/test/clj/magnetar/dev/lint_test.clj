(ns magnetar.dev.lint-test
  "Each gate of lint finds the fault that is planted for it, and nothing in this checkout that it must not."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.dev.lint.api :as api]
   [magnetar.dev.lint.docs :as docs]
   [magnetar.dev.lint.errors :as errors]
   [magnetar.dev.lint.layers :as layers]
   [magnetar.dev.lint.libraries :as libraries]
   [magnetar.dev.lint.prose :as prose]
   [magnetar.dev.lint.reflection :as reflection]
   [magnetar.dev.lint.scenarios :as scenarios]
   [magnetar.dev.lint.shell :as shell]
   [magnetar.dev.lint.sources :as sources]
   [magnetar.dev.lint.surface :as surface]
   [magnetar.dev.processes :refer [temporary-folder write]]))

(defmacro ^:private planted
  "Runs `body` with lint looking at a folder that holds `files`, a map of paths to texts."
  [files & body]
  `(let [folder# (.getCanonicalFile (temporary-folder))]
     (doseq [[path# text#] ~files] (write folder# path# text#))
     (binding [sources/*root* (str folder#)]
       ~@body)))

(defn- places [findings]
  (mapv (juxt :file :line) findings))

(deftest the-poms-have-the-libraries-of-deps-edn
  (is (= [] (libraries/findings))))

(def ^:private generated
  "A pom as it begins: a place for libraries, and nothing in it."
  "<a>\n    <!-- generated from deps.edn; CONTRIBUTING.md says how -->\n    <!-- end of what is generated -->\n  <own/>\n</a>\n")

(defn- fixed
  "The text of pom.xml after lint has written what this deps.edn gives."
  [deps]
  (spit (str sources/*root* "/deps.edn") deps)
  (with-out-str (libraries/fix))
  (is (= [] (libraries/findings)))
  (sources/text "pom.xml"))

(deftest a-library-that-deps-edn-gains-is-found-and-written-into-the-poms
  (planted {"deps.edn" "{:deps {a/b {:mvn/version \"1\"}}}", "cluster/deps.edn" "{}", "erlang/deps.edn" "{}", "etf/deps.edn" "{}", "http/deps.edn" "{}", "pom.xml" generated
            "core/pom.xml" generated, "cluster/pom.xml" generated, "erlang/pom.xml" generated, "etf/pom.xml" generated, "http/pom.xml" generated}
    (let [before (fixed "{:deps {a/b {:mvn/version \"1\"}}}")]
      (is (str/includes? before "<id>library</id>"))
      (is (not (str/includes? before "<artifactId>d</artifactId>")))
      (spit (str sources/*root* "/deps.edn") "{:deps {a/b {:mvn/version \"2\"}}}")
      (is (= [["core/pom.xml" 6] ["pom.xml" 9]] (sort (places (libraries/findings)))))
      (is (= "has `<version>1</version>` where deps.edn gives `<version>2</version>`: `bin/magnetar lint --fix` writes it"
             (:message (first (libraries/findings)))))
      (let [after (fixed "{:deps {a/b {:mvn/version \"1\"}} :aliases {:x {:extra-deps {c/d {:mvn/version \"3\" :exclusions [e/f]}}} :y {:deps {}}}}")]
        (is (= (str "    <profile>\n      <id>x</id>\n      <dependencies>\n        <dependency>\n          <groupId>c</groupId>\n"
                    "          <artifactId>d</artifactId>\n          <version>3</version>\n          <exclusions>\n            <exclusion>\n"
                    "              <groupId>e</groupId>\n              <artifactId>f</artifactId>\n            </exclusion>\n          </exclusions>\n"
                    "        </dependency>\n      </dependencies>\n    </profile>\n    <!-- end of what is generated -->\n  <own/>\n</a>\n")
               (subs after (str/index-of after "    <profile>\n      <id>x"))))
        (is (= before (fixed "{:deps {a/b {:mvn/version \"1\"}}}")) "and what goes is taken out")))))

(deftest a-pom-without-a-place-for-libraries-is-found
  (planted {"deps.edn" "{:deps {}}", "cluster/deps.edn" "{}", "erlang/deps.edn" "{}", "etf/deps.edn" "{}", "http/deps.edn" "{}", "pom.xml" generated, "core/pom.xml" "<a/>"
            "cluster/pom.xml" generated, "erlang/pom.xml" generated, "etf/pom.xml" generated, "http/pom.xml" generated}
    (is (some #{{:file "core/pom.xml"
                 :message (str "has no place for the libraries of deps.edn: put them between `<!-- generated from deps.edn; CONTRIBUTING.md says how -->` "
                               "and `<!-- end of what is generated -->`")}}
              (libraries/findings)))))

(deftest arrows-of-this-checkout-point-down
  (is (= [] (layers/findings)))
  (is (= [] (layers/name-findings)))
  (is (= [] (layers/kernel-findings)))
  (is (= [] (layers/circle-findings)))
  (is (= [] (layers/circle-list-findings)))
  (is (= [] (layers/runtime-findings)))
  (is (= [] (layers/import-findings))))

(deftest an-arrow-that-points-up-is-found
  (planted {"core/src/clj/magnetar/scope.clj" "(ns magnetar.scope\n  (:require [magnetar.channel :as channel]))"
            "core/src/clj/magnetar/channel.clj" "(ns magnetar.channel (:require [magnetar.impl.errors]))"}
    (let [found (layers/findings)]
      (is (= [["core/src/clj/magnetar/scope.clj" 2]] (places found)))
      (is (= ["magnetar.scope requires magnetar.channel, which lies above it: arrows point down only"] (map :message found))))))

(deftest an-arrow-between-pillars-is-found
  (planted {"core/src/clj/magnetar/async.clj" "(ns magnetar.async (:require magnetar.channel))"}
    (is (= ["magnetar.async requires magnetar.channel, which lies beside it: move what they share to a layer below"]
           (map :message (layers/findings))))))

(deftest a-namespace-without-a-layer-is-found
  (planted {"core/src/clj/magnetar/attic.clj" "(ns magnetar.attic)"}
    (is (= ["magnetar.attic has no layer: add it to dev/src/magnetar/dev/lint/layers.edn"]
           (map :message (layers/findings))))))

(deftest a-layer-of-what-is-not-there-is-found
  (planted {"core/src/clj/magnetar/attic.clj" "(ns magnetar.attic)"}
    (is (some #{"magnetar.scope has a layer, but there is no such namespace: take it out"} (map :message (layers/name-findings))))))

(deftest an-arrow-between-the-layers-of-otp-is-found
  (planted {"core/src/clj/magnetar/supervisor.clj" "(ns magnetar.supervisor (:require [magnetar.gen-server :as gs] [magnetar.task :as task]))"}
    (is (= ["magnetar.supervisor requires magnetar.task, which lies above it: arrows point down only"] (map :message (layers/findings))))))

(deftest a-kernel-package-that-looks-up-or-outside-is-found
  (planted {"kernel/src/java/magnetar/kernel/time/Wheel.java"
            (str "package magnetar.kernel.time;\n/* magnetar.kernel.inspect is only mentioned. */\n"
                 "import magnetar.kernel.channel.Channel;\nimport magnetar.kernel.park.Waiter;\nimport clojure.lang.IFn;\nimport java.util.List;\n")}
    (let [found (layers/kernel-findings)]
      (is (= [["kernel/src/java/magnetar/kernel/time/Wheel.java" 3] ["kernel/src/java/magnetar/kernel/time/Wheel.java" 5]]
             (places found)))
      (is (= ["the kernel package time uses channel, which does not lie below it: arrows point down only"
              "the kernel imports clojure.lang.IFn, but may see the JDK only"]
             (map :message found))))))

(deftest an-import-before-the-runtime-check-is-found
  (planted {"core/src/clj/magnetar/impl/bad.clj" "(ns magnetar.impl.bad\n  (:import (magnetar.kernel.channel Channel))\n  (:require [magnetar.impl.runtime]))"
            "core/src/clj/magnetar/impl/none.clj" "(ns magnetar.impl.none)\n(defn f [] (magnetar.kernel.channel.Channel.))"
            "core/src/clj/magnetar/impl/good.clj" "(ns magnetar.impl.good\n  (:require [magnetar.impl.runtime])\n  (:import (magnetar.kernel.channel Channel)))"}
    (is (= [["core/src/clj/magnetar/impl/bad.clj" 2] ["core/src/clj/magnetar/impl/none.clj" 2]]
           (places (layers/runtime-findings))))))

;; ---- circles of kernel classes

(defn- scopes
  "The package scope, in which these classes each name the next one, and the last the first."
  [& classes]
  (into {} (for [[class other] (partition 2 1 classes classes)]
             [(str "kernel/src/java/magnetar/kernel/scope/" class ".java")
              (str "package magnetar.kernel.scope;\nclass " class " { " other " other; }\n")])))

(deftest a-circle-of-classes-that-is-not-listed-is-found
  (planted (scopes "Order" "Item" "Price")
    (is (= [{:file "kernel/src/java/magnetar/kernel/scope/Item.java"
             :message (str "scope.Item, scope.Order and scope.Price refer to each other: let one side not know the other, "
                           "or add to :circles of dev/src/magnetar/dev/lint/layers.edn what has no better cut")}]
           (layers/circle-findings)))))

(deftest a-class-that-joins-a-listed-circle-is-found
  (planted (scopes "Fork" "Joiner" "Offload" "Order" "Scope")
    (is (= ["kernel/src/java/magnetar/kernel/scope/Order.java"] (map :file (layers/circle-findings))))
    (is (str/starts-with? (:message (first (layers/circle-findings)))
                          "scope.Order has joined the circle of scope.Fork, scope.Joiner, scope.Offload and scope.Scope: "))))

(deftest a-class-that-has-left-its-listed-circle-is-found
  (planted (scopes "Fork" "Joiner" "Scope")
    (is (= [] (layers/circle-findings)))
    (is (some #{"scope.Offload is listed in a group of :circles, and no longer in that circle: take it out"}
              (map :message (layers/circle-list-findings))))))

;; ---- exported packages of the kernel

(def ^:private module
  {"kernel/src/java/module-info.java" "module magnetar.kernel {\n    exports magnetar.kernel.channel;\n    exports magnetar.kernel.scope;\n}\n"})

(deftest a-use-of-a-package-that-is-not-exported-is-found
  (planted (into module
                 {"core/src/clj/magnetar/scope.clj" (str "(ns magnetar.scope\n  (:import\n   (magnetar.kernel.scope Scope)\n   (magnetar.kernel.time Durations)))\n"
                                                         "(defn off [] (magnetar.kernel.sched.HandOff/isOn))")
                  "core/src/clj/magnetar/scope/context.clj" "(ns magnetar.scope.context {:no-doc true} (:import (magnetar.kernel.park Gate)))"
                  "core/src/clj/magnetar/channel.clj" "(ns magnetar.channel (:import (magnetar.kernel.channel Channel)))"
                  "core/src/clj/magnetar/impl/clock.clj" "(ns magnetar.impl.clock (:import (magnetar.kernel.time Durations)))"
                  "test-kit/src/clj/magnetar/test/guard.clj" "(ns magnetar.test.guard (:import (magnetar.kernel.sim Simulation)))"
                  "test-kit/src/clj/magnetar/test/text.clj" "(ns magnetar.test.text (:import (magnetar.kernel.sim Simulation)))"})
    (let [found (layers/import-findings)]
      (is (= [["core/src/clj/magnetar/scope/context.clj" 1] ["core/src/clj/magnetar/scope.clj" 4] ["core/src/clj/magnetar/scope.clj" 5]
              ["test-kit/src/clj/magnetar/test/text.clj" 1]]
             (places found)))
      (is (= (str "magnetar.scope names the kernel package time, which kernel/src/java/module-info.java does not export: "
                  "go through a namespace of magnetar.impl")
             (:message (second found)))))))

;; ---- the public Java of the kernel

(defn- surface-of
  "The surface of the planted files of Java, from paths below magnetar/kernel to texts; the packages scope and fiber are exported."
  [files]
  (let [folder (temporary-folder)
        classes (temporary-folder)]
    (doseq [[path text] files] (write folder (str "magnetar/kernel/" path) text))
    (is (nil? (child/compile-java [folder] classes [])))
    (surface/surface classes #{"scope" "fiber"})))

(def ^:private gate-java
  "package magnetar.kernel.park; public class Gate { public final boolean isOpen() { return true; } protected void ring() {} void quiet() {} }")

(def ^:private fork-java
  (str "package magnetar.kernel.scope; import magnetar.kernel.park.Gate;\n"
       "public final class Fork extends Gate { private Fork() {} public synchronized String site() { return null; } void hidden() {}\n"
       "  static final class Own { public int number; } public record At(long nanos) {} }"))

(deftest the-surface-has-what-a-program-can-name
  (let [lines (surface-of {"park/Gate.java" gate-java
                           "scope/Fork.java" fork-java
                           "scope/Region.java" "package magnetar.kernel.scope; public abstract class Region<T> { public static final int MOST = 1; protected Region() {} protected abstract T of(java.util.List<? extends T> of); }"
                           "scope/Inside.java" "package magnetar.kernel.scope; class Inside { public void run() {} }"})]
    (is (= ["scope.Fork | public String scope.Fork.site()"
            "scope.Fork | public final boolean park.Gate.isOpen()"
            "scope.Fork | public final class scope.Fork extends park.Gate"
            "scope.Region | protected abstract T scope.Region.of(java.util.List<? extends T>)"
            "scope.Region | protected scope.Region()"
            "scope.Region | public abstract class scope.Region<T>"
            "scope.Region | public static final int scope.Region.MOST"]
           (remove #(str/starts-with? % "scope.Fork$At ") lines)))
    (is (some #{"scope.Fork$At | public long scope.Fork$At.nanos()"} lines))))

(deftest a-public-method-that-is-not-listed-is-found
  (let [listed (surface-of {"park/Gate.java" gate-java "scope/Fork.java" fork-java})
        real (surface-of {"park/Gate.java" gate-java
                          "scope/Fork.java" (str/replace fork-java "void hidden()" "public void hidden()")})]
    (is (= [] (surface/differences listed listed)))
    (is (= ["`scope.Fork | public void scope.Fork.hidden()` is public, but not listed; `bin/magnetar lint --write-api` writes what is there"]
           (map :message (surface/differences listed real))))
    (let [[found] (surface/differences real listed)]
      (is (= "`scope.Fork | public void scope.Fork.hidden()` is listed, but not public; `bin/magnetar lint --write-api` writes what is there"
             (:message found)))
      (is (= ["kernel/surface.txt" (+ 2 (.indexOf ^java.util.List real "scope.Fork | public void scope.Fork.hidden()"))] [(:file found) (:line found)])))))

(deftest the-surface-of-this-checkout-is-listed
  (is (= [] (surface/findings))))

(deftest reflection-boxed-math-and-broken-files-are-found
  (planted {"src/slow.clj" "(defn size [x]\n  (.size x))\n(defn next-one [x]\n  (inc x))\n(defn quick ^long [^long x] (inc x))"
            "src/broken.clj" "(defn f [] (no-such-thing))"}
    (is (= [["src/broken.clj" 1] ["src/slow.clj" 2] ["src/slow.clj" 4]]
           (places (reflection/findings ["src"]))))
    (is (= [["src/broken.clj" 1] ["src/slow.clj" 2]]
           (places (reflection/reflection-findings ["src"]))))))

(deftest a-source-named-test-is-checked-and-a-test-is-not
  (planted {"kit/src/clj/kit/test/clock.clj" "(defn size [x]\n  (.size x))"
            "kit/test/clj/kit/clock_test.clj" "(defn size [x]\n  (.size x))"}
    (is (= [["kit/src/clj/kit/test/clock.clj" 2]] (places (reflection/findings ["kit"]))))))

(deftest checking-a-program-does-not-run-it
  (planted {"src/acts.clj" "(System/setProperty \"magnetar.dev.ran\" \"yes\")"}
    (is (= [] (reflection/findings ["src"])))
    (is (nil? (System/getProperty "magnetar.dev.ran")))))

(deftest a-public-kernel-type-without-javadoc-is-found
  (planted {"kernel/src/java/magnetar/kernel/park/Bare.java" "package magnetar.kernel.park;\n\npublic final class Bare {}\n"
            "kernel/src/java/magnetar/kernel/park/Said.java" "package magnetar.kernel.park;\n\n/** Says. */\n@Deprecated\npublic sealed interface Said {}\n"
            "kernel/src/java/magnetar/kernel/park/Hidden.java" "package magnetar.kernel.park;\nfinal class Hidden {}\n"}
    (is (= [["kernel/src/java/magnetar/kernel/park/Bare.java" 3]] (places (docs/java-findings))))))

(deftest a-public-var-without-docstring-is-found-for-macros-alone-or-not
  (let [text (str "(ns magnetar.planted-docs \"Doc.\")\n(defn said \"Says.\" [])\n(defn- hidden [])\n(defn bare [])\n"
                  "(defn ^:no-doc bare-at [])\n(defn ^:no-doc said-at \"Says.\" [])")]
    (try
      (load-string text)
      (planted {"core/src/clj/magnetar/planted_docs.clj" text}
        (is (= [["core/src/clj/magnetar/planted_docs.clj" 4 "magnetar.planted-docs/bare is public and has no docstring"]
                ["core/src/clj/magnetar/planted_docs.clj" 5 "magnetar.planted-docs/bare-at is public and has no docstring"]]
               (map (juxt :file :line :message) (docs/findings)))))
      (finally (remove-ns 'magnetar.planted-docs)))))

(deftest a-docstring-that-is-not-in-the-form-is-found
  (let [long-line (str (str/join (repeat 8 "ten chars ")) ".")
        text (str "(ns magnetar.planted-form \"No full stop\")\n"
                  "(defn wide \"" long-line "\" [])\n"
                  "(defn crossed \"Says.\n\n  Example:\n\n    (crossed)\n\n  Returns nil.\" [])\n"
                  "(defn twice \"Says.\n\n  Throws one.\n\n  Throws another.\" [])\n"
                  "(defn plain \"Says.\n\n  Prose: that\n  Throws nothing.\n\n  Never waits.\n\n  Example:\n\n    Returns\n\n  Go: say.\" [])\n"
                  "(defn ^:no-doc hidden \"Says\" [])\n"
                  "(defn flat \"Says.\n\n  " (str/join (repeat 11 "ten chars ")) "\" [])\n"
                  "(defn code \"Says.\n\n  Example:\n\n    (str \\\"" (str/join (repeat 11 "ten chars ")) "\\\")\" [])")]
    (try
      (load-string text)
      (planted {"core/src/clj/magnetar/planted_form.clj" text}
        (is (= [[nil "the docstring of magnetar.planted-form has a first line without a full stop; end a sentence there"]
                [3 (str "the docstring of magnetar.planted-form/crossed has its labelled paragraphs in another order than CONTRIBUTING.md gives, "
                        "or one twice")]
                [28 "the docstring of magnetar.planted-form/flat has a line of 112 characters, \"ten chars ten chars ten chars ten char..\"; wrap it at 110"]
                [10 (str "the docstring of magnetar.planted-form/twice has its labelled paragraphs in another order than CONTRIBUTING.md gives, "
                         "or one twice")]
                [2 "the docstring of magnetar.planted-form/wide has a first line of 81 characters; shorten it to 80"]]
               (map (juxt :line :message) (docs/form-findings)))))
      (finally (remove-ns 'magnetar.planted-form)))))

(deftest private-rooms-are-not-public
  (let [public? #(docs/public-namespace? {:name %1, :declaration %2})]
    (is (public? 'magnetar.channel '(ns magnetar.channel "Doc.")))
    (is (not (public? 'magnetar.impl.errors '(ns magnetar.impl.errors))))
    (is (not (public? 'magnetar.secret '(ns magnetar.secret "Doc." {:no-doc true}))))))

(deftest every-difference-from-api-edn-is-found
  (let [one {:kind :function, :arglists '([x]), :since "0.1"}
        found (api/differences {'m.a {'f one, 'gone one, 'later one, 'undated one}}
                               {'m.a {'f (assoc one :arglists '([x y])), 'later (assoc one :since "0.2"), 'new one, 'undated (assoc one :since nil)}})]
    (is (= ["m.a/f is listed as {:kind :function, :arglists ([x]), :since \"0.1\"}, but is {:kind :function, :arglists ([x y]), :since \"0.1\"}"
            "m.a/gone is listed, but not public"
            "m.a/later is listed as {:kind :function, :arglists ([x]), :since \"0.1\"}, but is {:kind :function, :arglists ([x]), :since \"0.2\"}"
            "m.a/new is public, but not listed"
            "m.a/undated is not in 0.1 and has no :added: give the var the version that it comes with"]
           (map #(first (str/split (:message %) #"; ")) found)))))

(deftest a-name-is-since-the-first-release-or-since-what-its-var-says
  (let [since #(get-in (api/published) [%1 %2 :since])]
    (is (= "0.1" (since 'magnetar.actor 'spawn)))
    (is (= "0.1" (since 'magnetar.task.supervisor 'async-opt)))
    (is (= "0.2" (since 'magnetar.actor 'spawn*)))))

(deftest api-edn-says-which-names-are-deprecated
  (let [written (api/written)] ; which lint compares with the namespaces
    (is (= #{"0.2"} (set (map :deprecated (vals (written 'magnetar.breaker))))))
    (is (not (contains? (get-in written '[magnetar.actor cancel-timer]) :deprecated)))))

(deftest a-shell-script-that-does-not-parse-is-found
  (planted {"bin/magnetar" "#!/bin/sh\nif true; then\n"}
    (let [[{:keys [file message]} & more] (shell/findings)]
      (is (nil? more))
      (is (= "bin/magnetar" file))
      (is (str/starts-with? message "does not parse: "))))
  (testing "and ours do"
    (is (= [] (shell/findings)))))

;; ---- prose

(deftest each-word-of-the-glossary-says-what-it-is-called-elsewhere
  (is (empty? (re-seq #"(?m)^\| ([^|]+) \|.*\| \|$" (sources/text "docs/glossary.md")))))

(deftest prose-of-this-checkout-is-narrow-and-cites-decisions-that-exist
  (is (= [] (prose/width-findings)))
  (is (= [] (prose/decision-findings))))

(deftest prose-that-is-too-wide-is-found-and-code-tables-and-links-are-not
  (let [wide (str/join " " (repeat 30 "word"))]
    (planted {"SPEC.md" (str "# Title\n\n" wide "\n\n    " wide "\n\n| " wide " |\n\n```clojure\n" wide "\n```\n- " wide "\n")
              "docs/guide/a.md" (str "see [the page](" (str/join (repeat 120 "x")) ".md)\n")}
      (is (= [["SPEC.md" 3 "this line of prose has 149 columns; wrap it at 110"]
              ["SPEC.md" 12 "this line of prose has 151 columns; wrap it at 110"]]
             (map (juxt :file :line :message) (prose/width-findings)))))))

(deftest a-decision-that-is-cited-and-does-not-exist-is-found
  (planted {"docs/decisions/0008-a-title.md" "# 8\n\nsee [9](0009-gone.md)\n"
            "kernel/src/java/A.java" "// decision 8\n// docs/decisions/0008 and docs/decisions/0010\n"
            "core/test/clj/a_test.clj" ";; Decisions 7 and 8\n;; decisions 8, 8 and 12\n"}
    (is (= [["kernel/src/java/A.java" 2 "there is no decision 10 in docs/decisions"]
            ["core/test/clj/a_test.clj" 1 "there is no decision 7 in docs/decisions"]
            ["core/test/clj/a_test.clj" 2 "there is no decision 12 in docs/decisions"]
            ["docs/decisions/0008-a-title.md" 3 "there is no decision 9 in docs/decisions"]]
           (map (juxt :file :line :message) (prose/decision-findings))))))

(deftest a-decision-record-is-a-page
  (planted {"docs/decisions/0001-long.md" (str "# 1\n\n" (str/join "\n" (repeat 499 "word")) "\n")
            "docs/decisions/0002-a-page.md" (str "# 2\n\n" (str/join "\n" (repeat 498 "word")) "\n")}
    (is (= [["docs/decisions/0001-long.md" "this record has 501 words; a page has at most 500"]]
           (map (juxt :file :message) (prose/decision-findings))))))

;; ---- scenarios of Erlang

(deftest the-scenarios-of-this-checkout-are-carried-or-excused
  (is (= [] (scenarios/findings))))

(deftest a-scenario-that-nobody-cares-for-is-found
  (planted {"core/test/resources/conformance/otp-ids.txt" "SPN-01\nSPN-02\nSPN-03\nSUP-01\nSUP-02\n"
            "core/test/clj/a_test.clj" (str "(ns a-test)\n(scenario SPN-01 \"..\")\n(deftest ^{" :otp " [\"SPN-03\" \"SPN-99\"]} b)")
            "docs/parity/erlang.md" "# Page\n\n## Not carried\n\n| groups | reason |\n|---|---|\n| SUP, XYZ | comes later |\n| SPN-03 | .. |\n"}
    (is (= [["core/test/resources/conformance/otp-ids.txt" 2 "SPN-02 is neither carried by a test nor excused in docs/parity/erlang.md"]
            ["docs/parity/erlang.md" 8 "SPN-03 is excused, but core/test/clj/a_test.clj carries it"]
            ["core/test/clj/a_test.clj" 3 "SPN-99 is no scenario"]
            ["docs/parity/erlang.md" 7 "XYZ is no scenario"]]
           (mapv (juxt :file :line :message) (scenarios/findings))))))

;; ---- ids of errors

(deftest the-ids-of-this-checkout-have-sections
  (is (= [] (errors/findings))))

(deftest an-id-without-a-section-and-a-section-without-an-id-are-found
  (let [page "# Errors\n\n## :magnetar/bad-order\n\n## :magnetar/gone\n\n## :magnetar/no-process\n"]
    (planted {"core/src/clj/a.clj" (str "(ns a)\n(misuse :magnetar/bad-order \"not :magnetar/in-a-text\") ; :magnetar/in-a-comment\n"
                                        "(misuse :magnetar/bad-price {:magnetar/reason \\\"})\n")
              "kernel/src/java/A.java" "class A { void f() { throw Dialect.codec().misuse(\"no-process\", x); } }"
              "core/src/clj/magnetar/errors.md" page
              "docs/reference/errors.md" (str page "\n")}
      (is (= [["core/src/clj/a.clj" 3 "the error :magnetar/bad-price has no section in core/src/clj/magnetar/errors.md: write one, or list the keyword in magnetar.dev.lint.errors"]
              ["core/src/clj/magnetar/errors.md" 5 "no source raises :magnetar/gone"]
              ["docs/reference/errors.md" nil "differs from core/src/clj/magnetar/errors.md, which `explain` reads: bin/magnetar lint --fix copies it"]]
             (mapv (juxt :file :line :message) (errors/findings)))))))
