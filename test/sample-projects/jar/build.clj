;; An ordinary uberjar build: everything compiled ahead of time, started with `java -jar`.
(require '[clojure.tools.build.api :as b]
         '[clojure.tools.deps :as deps])

(let [basis (b/create-basis {:project "deps.edn"})]
  (deps/prep-libs! (:libs basis) {:action :prep} basis)
  (b/compile-clj {:basis basis, :src-dirs ["src"], :class-dir "target/classes", :ns-compile '[hello]})
  (b/uber {:basis basis, :class-dir "target/classes", :uber-file "target/hello.jar", :main 'hello})
  (shutdown-agents))
