;; What `clojure -X:deps prep` and `clojure -M -m hello` do, through tools.deps on plain Java.
(require '[clojure.java.process :as process]
         '[clojure.tools.deps :as deps])

(let [basis (deps/create-basis {:project "deps.edn"})]
  (deps/prep-libs! (:libs basis) {:action :prep} basis)
  (print (process/exec {:err :inherit}
                       (str (System/getProperty "java.home") "/bin/java")
                       "-cp" (deps/join-classpath (:classpath-roots basis))
                       "clojure.main" "-m" "hello"))
  (flush)
  (shutdown-agents))
